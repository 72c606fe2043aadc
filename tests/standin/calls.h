/* The macros that make an NVML function of the stand-in one line, or a few. */
#ifndef CALLS_H
#define CALLS_H

#include "standin.h"

#include <stddef.h>

#define SYSTEM_CALL(name, params, ...)                                                             \
    SITE(name)                                                                                     \
    nvmlReturn_t name params {                                                                     \
        struct call call;                                                                          \
        nvmlReturn_t error = enter(&call, ID(name), SYSTEM, NULL);                                 \
        if (error != NVML_SUCCESS) return error;                                                   \
        __VA_ARGS__                                                                                \
    }

/* Every function with a device: `d` is that device as now described, `device` its handle. */
#define DEVICE_CALL(name, reach, params, ...)                                                      \
    SITE(name)                                                                                     \
    nvmlReturn_t name params {                                                                     \
        struct call call;                                                                          \
        nvmlReturn_t error = enter(&call, ID(name), reach, device);                                \
        if (error != NVML_SUCCESS) return error;                                                   \
        const struct device *d = call.device;                                                      \
        (void)d;                                                                                   \
        __VA_ARGS__                                                                                \
    }

#define WITH(...) (nvmlDevice_t device, __VA_ARGS__)

#define GIVE(out, number)                                                                          \
    do {                                                                                           \
        long long number_ = (long long)(number);                                                   \
        if ((out) == NULL) return NVML_ERROR_INVALID_ARGUMENT;                                     \
        if (number_ < 0) return NVML_ERROR_NOT_SUPPORTED;                                          \
        *(out) = (__typeof__(*(out)))number_;                                                      \
    } while (0)

#define NUMBER(name, reach, type, number)                                                          \
    DEVICE_CALL(name, reach, WITH(type *out), GIVE(out, number); return NVML_SUCCESS;)

#define PAIR(name, reach, type, first, second)                                                     \
    DEVICE_CALL(name, reach, WITH(type *one, type *two), GIVE(one, first); GIVE(two, second);      \
                return NVML_SUCCESS;)

const struct extra *extra(const struct extra *list, int count, unsigned int id);

#endif
