// The functions of metal-cpp that stand in no header, and nothing else: several models, or a program that has
// them as well, link one such file.
#define NS_PRIVATE_IMPLEMENTATION
#define MTL_PRIVATE_IMPLEMENTATION
#include <Foundation/Foundation.hpp>
#include <Metal/Metal.hpp>
