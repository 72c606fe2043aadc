/* A stand-in for libcuda.so.1: the calls of a check, on memory of this process. Kernels are played
   by name, time is counted and not spent, and faults come from the file `cuda` in STANDIN_FOLDER. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { OK, INVALID = 1, OOM = 2, NO_DEVICE = 100, UNKNOWN_NAME = 500, BAD_PTX = 218, OLD_PTX = 222 };
enum { DEVICES = 16, FAULTS = 32, BLOCK = 256, CHAINS = 16, STEPS = 8, TILES = 8, SEED = 0x1D };
enum { LANES = 32, MARKS = 16 };

struct device {
    char uuid[64], name[64];
    int sms, major, minor, threads, mode, mps, integrated;
    double clock_khz, memory_khz, bus_bits;
    size_t total, used;
};
struct fault {
    char uuid[64], kind[16], part[16];
    double value;
    int done;
};

static struct device devices[DEVICES];
static struct fault faults[FAULTS];
static int device_count, fault_count, version = 13000, current;
static double now; /* seconds of the card's own clock */

#define CALL __attribute__((visibility("default"))) int

static int visible(const char *uuid) {
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    return shown == NULL || strcasestr(shown, uuid) != NULL;
}

static void read_control(void) {
    char path[4096], line[512];
    snprintf(path, sizeof path, "%s/cuda", getenv("STANDIN_FOLDER") ? getenv("STANDIN_FOLDER") : ".");
    FILE *file = fopen(path, "re");
    device_count = fault_count = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        struct device d = {0};
        struct fault f = {0};
        if (sscanf(line, "driver %d", &version) == 1) continue;
        if (sscanf(line, "device %63s %d %d %d %d %d %d %d %lf %lf %lf %zu %63[^\n]", d.uuid, &d.sms,
                   &d.major, &d.minor, &d.threads, &d.mode, &d.mps, &d.integrated, &d.clock_khz,
                   &d.memory_khz, &d.bus_bits, &d.total, d.name) == 13) {
            if (visible(d.uuid) && device_count < DEVICES) devices[device_count++] = d;
        } else if (sscanf(line, "fault %63s %15s %15s %lf", f.uuid, f.kind, f.part, &f.value) == 4) {
            if (fault_count < FAULTS) faults[fault_count++] = f;
        } else {
            fprintf(stderr, "stand-in libcuda: cannot read: %s", line);
            abort();
        }
    }
    if (file != NULL) fclose(file);
}

static struct device *card(void) { return &devices[current]; }

static struct fault *fault(const char *kind, const char *part) {
    for (int i = 0; i < fault_count; i++)
        if (strcmp(faults[i].kind, kind) == 0 && strcmp(faults[i].part, part) == 0 &&
            strcasecmp(faults[i].uuid, card()->uuid) == 0) return &faults[i];
    return NULL;
}

static double speed(const char *part) {
    struct fault *slow = fault("slow", part);
    return slow == NULL ? 1.0 : 1.0 - slow->value / 100;
}

/* What happens instead of a launch or a copy of this part. */
static int suffer(const char *part) {
    struct fault *error = fault("error", part);
    while (fault("hang", part) != NULL) sleep(1);
    return error == NULL ? OK : (int)error->value;
}

/* ---- The library and its devices ---- */

CALL cuInit(unsigned flags) {
    (void)flags;
    read_control();
    if (device_count == 0) return NO_DEVICE;
    struct fault *f = fault("error", "init");
    return f == NULL ? OK : (int)f->value;
}
CALL cuDriverGetVersion(int *out) { *out = version; return OK; }
CALL cuDeviceGet(int *out, int ordinal) {
    *out = ordinal;
    return ordinal < device_count ? OK : 101;
}
CALL cuDeviceGetName(char *out, int size, int device) {
    snprintf(out, (size_t)size, "%s", devices[device].name);
    return OK;
}
CALL cuDeviceGetUuid_v2(unsigned char *out, int device) {
    const char *at = strchr(devices[device].uuid, '-') + 1;
    for (int i = 0; i < 16; at += 2) {
        if (*at == '-') { at -= 1; continue; }
        sscanf(at, "%2hhx", &out[i++]);
    }
    return OK;
}
CALL cuDeviceGetAttribute(int *out, int which, int device) {
    const struct device *d = &devices[device];
    switch (which) {
    case 13: *out = (int)d->clock_khz; return OK;
    case 16: *out = d->sms; return OK;
    case 18: *out = d->integrated; return OK;
    case 20: *out = d->mode; return OK;
    case 36: *out = (int)d->memory_khz; return OK;
    case 37: *out = (int)d->bus_bits; return OK;
    case 39: *out = d->threads; return OK;
    case 75: *out = d->major; return OK;
    case 76: *out = d->minor; return OK;
    case 133: *out = d->mps; return OK;
    default: return INVALID;
    }
}
CALL cuDevicePrimaryCtxRetain(void **out, int device) { *out = &devices[device]; return OK; }
CALL cuCtxSetCurrent(void *context) {
    current = (int)((struct device *)context - devices);
    return OK;
}
CALL cuGetErrorName(int code, const char **out) {
    *out = code == OOM ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED"
         : code == 214 ? "CUDA_ERROR_ECC_UNCORRECTABLE" : code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE"
         : "CUDA_ERROR_UNKNOWN";
    return OK;
}

/* ---- Memory ---- */

CALL cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = card()->total;
    *free = card()->total - card()->used;
    return OK;
}
/* The size stands before what it hands out. */
CALL cuMemAlloc_v2(uint64_t *out, size_t size) {
    struct device *d = card();
    if (d->used + size > d->total || fault("oom", "memory") != NULL) return OOM;
    char *found = aligned_alloc(256, (size + 511) / 256 * 256);
    if (found == NULL) return OOM;
    *(size_t *)(void *)found = size;
    d->used += size;
    *out = (uint64_t)(uintptr_t)(found + 256);
    return OK;
}
CALL cuMemFree_v2(uint64_t address) {
    char *found = (char *)(uintptr_t)address - 256;
    card()->used -= *(size_t *)(void *)found;
    free(found);
    return OK;
}
CALL cuMemAllocHost_v2(void **out, size_t size) { *out = malloc(size); return *out ? OK : OOM; }
CALL cuMemFreeHost(void *address) { free(address); return OK; }
CALL cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    memcpy((void *)(uintptr_t)to, from, size);
    return OK;
}
CALL cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    memcpy(to, (void *)(uintptr_t)from, size);
    return OK;
}
static int over_link(void *to, const void *from, size_t size, const char *part) {
    int error = suffer(part);
    memcpy(to, from, size);
    now += (double)size / (55e9 * speed(part));
    return error;
}
CALL cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
    (void)stream;
    return over_link((void *)(uintptr_t)to, from, size, "link");
}
CALL cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
    (void)stream;
    return over_link(to, (void *)(uintptr_t)from, size, "link");
}
CALL cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
    (void)stream;
    int error = suffer("memory");
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    struct fault *wrong = fault("wrong", "memory");
    if (wrong != NULL) ((uint32_t *)(uintptr_t)to)[(size_t)wrong->value] ^= 4;
    now += 2.0 * (double)size / (card()->memory_khz * 2000 * card()->bus_bits / 8 * 0.89 * speed("memory"));
    return error;
}
CALL cuDeviceCanAccessPeer(int *out, int here, int there) { *out = here / 2 == there / 2; return OK; }
CALL cuCtxEnablePeerAccess(void *context, unsigned flags) { (void)context; (void)flags; return OK; }
CALL cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t from, void *here, size_t size, void *s) {
    (void)s;
    int direct = ((struct device *)there - devices) / 2 == ((struct device *)here - devices) / 2;
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    now += (double)size / (direct ? 400e9 : 25e9);
    return OK;
}

/* ---- Time ---- */

CALL cuEventCreate(void **out, unsigned flags) { (void)flags; *out = calloc(1, sizeof now); return OK; }
CALL cuEventRecord(void *event, void *stream) { (void)stream; *(double *)event = now; return OK; }
CALL cuEventSynchronize(void *event) { (void)event; return OK; }
CALL cuEventElapsedTime(float *out, void *first, void *last) {
    *out = (float)((*(double *)last - *(double *)first) * 1000);
    return OK;
}
CALL cuEventDestroy_v2(void *event) { free(event); return OK; }

/* ---- Kernels ---- */

static const char *const KERNELS[] = {"andon_fp32", "andon_tensor", "andon_fill", "andon_compare", NULL};

CALL cuModuleLoadData(void **out, const char *text) {
    const char *target = strstr(text, ".target sm_");
    if (target == NULL) return BAD_PTX;
    if (atoi(target + 11) > card()->major * 10 + card()->minor) return OLD_PTX;
    *out = strdup(text);
    return OK;
}
CALL cuModuleGetFunction(void **out, void *module, const char *name) {
    for (int i = 0; KERNELS[i] != NULL; i++)
        if (strcmp(KERNELS[i], name) == 0 && strstr(module, name) != NULL) {
            *out = (void *)KERNELS[i];
            return OK;
        }
    return UNKNOWN_NAME;
}

static uint32_t fp32_word(uint32_t thread, uint32_t rounds) {
    uint32_t sum = 0;
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        int32_t begins = (int32_t)((thread * 3 + chain * 11 + SEED) & 15) - 8;
        int32_t step = (int32_t)((thread * 7 + chain * 5 + SEED) % 9) - 4;
        sum += (chain + 1) * (uint32_t)(begins + step * STEPS * (int32_t)rounds);
    }
    return sum;
}
static uint32_t tensor_word(uint32_t lane, uint32_t rounds) {
    uint32_t sum = 0;
    for (uint32_t place = 0; place < 4 * TILES; place++) {
        uint32_t column = (lane & 3) * 2 + place % 2;
        int32_t value = (int32_t)((place / 4 * 7 + column * 5 + SEED) % 16) - 8;
        sum += (place + 1) * rounds * (uint32_t)value;
    }
    return sum;
}

static void mark(uint64_t marks, unsigned blocks, double seconds, double share) {
    uint64_t *head = (uint64_t *)(uintptr_t)marks;
    head[0] = (uint64_t)(seconds * card()->clock_khz * 1000 * share);
    head[1] = (uint64_t)(seconds * 1e9);
    uint32_t *sms = (uint32_t *)(uintptr_t)(marks + MARKS);
    for (unsigned block = 0; block < blocks; block++) sms[block] = block % (unsigned)card()->sms;
}

/* An instruction of tensor cores takes 4096 operations, and an SM does 2,480 in a clock. */
static void compute(const char *part, unsigned blocks, uint64_t out, uint64_t marks, uint32_t rounds) {
    int fp32 = strcmp(part, "fp32") == 0;
    double flop = fp32 ? 2.0 * CHAINS * STEPS * blocks * BLOCK : 65536.0 * blocks * BLOCK / LANES;
    double each = (fp32 ? 2 * 128 * 0.98 : 2480.0) * card()->sms * card()->clock_khz * 1000;
    double seconds = flop * rounds / (each * speed(part) * speed("clock"));
    uint32_t *words = (uint32_t *)(uintptr_t)out, pattern[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++)
        pattern[i] = fp32 ? fp32_word(i, rounds) : tensor_word(i % LANES, rounds);
    for (unsigned block = 0; block < blocks; block++)
        memcpy(words + block * BLOCK, pattern, sizeof pattern);
    struct fault *wrong = fault("wrong", part);
    for (int i = 0; wrong != NULL && i < (int)wrong->value; i++) words[BLOCK + i * 7] ^= 0x40;
    mark(marks, blocks, seconds, speed("clock"));
    now += seconds;
}

static void fill(uint32_t *to, uint64_t quads, uint32_t seed, uint32_t step) {
    for (uint64_t i = 0; i < quads * 4; i++) to[i] = seed + (uint32_t)i * step;
    struct fault *wrong = fault("wrong", "patterns");
    for (uint64_t i = 0; wrong != NULL && i < (uint64_t)wrong->value && i < quads * 4; i++)
        to[i * 1000 % (quads * 4)] |= 0x00010000;
}
static void compare(const uint32_t *at, uint64_t quads, uint32_t seed, uint32_t step, uint64_t found,
                    uint32_t most) {
    uint32_t *count = (uint32_t *)(uintptr_t)found;
    for (uint64_t i = 0; i < quads * 4; i++) {
        uint32_t should = seed + (uint32_t)i * step;
        if (at[i] == should) continue;
        if (*count < most) {
            char *place = (char *)(uintptr_t)found + 16 + 16 * (size_t)*count;
            memcpy(place, &i, 8);
            memcpy(place + 8, &at[i], 4);
            memcpy(place + 12, &should, 4);
        }
        ++*count;
    }
}

CALL cuLaunchKernel(const char *name, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                    unsigned ty, unsigned tz, unsigned shared, void *stream, void **values,
                    void **extra) {
    (void)y; (void)z; (void)threads; (void)ty; (void)tz; (void)shared; (void)stream; (void)extra;
    const char *part = strcmp(name, "andon_fp32") == 0 ? "fp32"
                     : strcmp(name, "andon_tensor") == 0 ? "tensor" : "patterns";
    int error = suffer(part);
    if (error != OK) return error;
    uint64_t first = *(uint64_t *)values[0], second = *(uint64_t *)values[1];
    uint32_t third = *(uint32_t *)values[2];
    if (strcmp(part, "patterns") != 0) {
        compute(part, blocks, first, second, third);
        return OK;
    }
    uint32_t step = *(uint32_t *)values[3];
    if (strcmp(name, "andon_fill") == 0) fill((uint32_t *)(uintptr_t)first, second, third, step);
    else compare((uint32_t *)(uintptr_t)first, second, third, step, *(uint64_t *)values[4],
                 *(uint32_t *)values[5]);
    now += 16.0 * (double)second / (card()->memory_khz * 2000 * card()->bus_bits / 8 * 0.9);
    return OK;
}
