#pragma once
typedef const void* CFTypeRef;
typedef double CFTimeInterval;
