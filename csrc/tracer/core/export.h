// What programs and other libraries see of libprofkit_inject.so; everything else is hidden.
#pragma once

#define PROFKIT_EXPORT extern "C" __attribute__((visibility("default")))
