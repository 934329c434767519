#pragma once
typedef struct objc_class* Class;
typedef struct objc_object {
  Class isa;
} * id;
typedef struct objc_selector* SEL;
typedef signed char BOOL;
typedef struct objc_object Protocol;
typedef struct objc_method* Method;
typedef id (*IMP)(id, SEL, ...);
extern "C" {
void* objc_lookUpClass(const char*);
void* objc_getProtocol(const char*);
SEL sel_registerName(const char*);
Class object_getClass(id);
bool class_addMethod(Class, SEL, IMP, const char*);
const char* sel_getName(SEL);
}
