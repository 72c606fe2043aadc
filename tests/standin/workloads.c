/* The NVML functions of the stand-in about what runs on a device: processes, MIG, GPM, events. */
#include "calls.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- Processes ---- */

static int belongs(const struct call *call, const struct process *p, enum kind kind) {
    int on_mig = p->mig >= 0 && p->mig < call->device->mig_count;
    return p->kind == kind &&
           (call->mig == NULL || (on_mig && &call->device->migs[p->mig] == call->mig));
}

static nvmlReturn_t running(const struct call *call, enum kind kind, unsigned int *count,
                            nvmlProcessInfo_t *out) {
    unsigned int found = 0, room = count == NULL ? 0 : *count;
    if (count == NULL || (room > 0 && out == NULL)) return NVML_ERROR_INVALID_ARGUMENT;
    const struct device *d = call->device;
    for (const struct process *p = d->processes; p < d->processes + d->process_count; p++) {
        if (!belongs(call, p, kind) || found++ >= room) continue;
        const struct mig *mig = p->mig >= 0 && p->mig < d->mig_count ? &d->migs[p->mig] : NULL;
        out[found - 1] = (nvmlProcessInfo_t){
            .pid = p->pid, .usedGpuMemory = p->memory,
            .gpuInstanceId = mig ? mig->gi : 0xFFFFFFFF,
            .computeInstanceId = mig ? mig->ci : 0xFFFFFFFF};
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define RUNNING(name, kind)                                                                        \
    DEVICE_CALL(name, ANY, WITH(unsigned int *count, nvmlProcessInfo_t *out),                      \
                return running(&call, kind, count, out);)
/* The second and third versions have the same layout. nvml.h declares only the third. */
#pragma GCC visibility push(default)
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2 WITH(unsigned int *, nvmlProcessInfo_t *);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2 WITH(unsigned int *, nvmlProcessInfo_t *);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2 WITH(unsigned int *, nvmlProcessInfo_t *);
#pragma GCC visibility pop
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)

DEVICE_CALL(nvmlDeviceGetProcessUtilization, UTILISATION,
            WITH(nvmlProcessUtilizationSample_t *out, unsigned int *count,
                 unsigned long long last_seen), {
    unsigned int found = 0, room = count == NULL || out == NULL ? 0 : *count;
    struct timespec wall;
    if (count == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &wall);
    unsigned long long now = wall.tv_sec * 1000000ULL + wall.tv_nsec / 1000;
    for (const struct process *p = d->processes; p < d->processes + d->process_count; p++)
        if (p->sm >= 0 && now > last_seen && found++ < room)
            out[found - 1] = (nvmlProcessUtilizationSample_t){
                .pid = p->pid, .timeStamp = now, .smUtil = (unsigned int)p->sm};
    *count = found;
    if (found == 0) return NVML_ERROR_NOT_FOUND;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
})

/* The driver's ring: 71 readings of utilisation, 200 ms apart. */
enum { KEPT_READINGS = 71, KEPT_STEP_US = 200000 };

DEVICE_CALL(nvmlDeviceGetSamples, UTILISATION,
            WITH(nvmlSamplingType_t type, unsigned long long last_seen,
                 nvmlValueType_t *kind, unsigned int *count, nvmlSample_t *out), {
    unsigned int found = 0, room = count == NULL || out == NULL ? 0 : *count;
    struct timespec wall;
    if (count == NULL || kind == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (type != NVML_GPU_UTILIZATION_SAMPLES || d->gpu_utilisation < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    clock_gettime(CLOCK_REALTIME, &wall);
    unsigned long long now = wall.tv_sec * 1000000ULL + wall.tv_nsec / 1000;
    *kind = NVML_VALUE_TYPE_UNSIGNED_INT;
    for (int back = KEPT_READINGS - 1; back >= 0; back--) {
        unsigned long long at = (now / KEPT_STEP_US - back) * KEPT_STEP_US;
        if (at > last_seen && found++ < room) {
            out[found - 1].timeStamp = at;
            out[found - 1].sampleValue.ullVal = 0;
            out[found - 1].sampleValue.uiVal = (unsigned int)d->gpu_utilisation;
        }
    }
    *count = found;
    if (found == 0) return NVML_ERROR_NOT_FOUND;
    return out != NULL && found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
})

/* ---- MIG ---- */

enum { MIG_SLICES = 7 };

PAIR(nvmlDeviceGetMigMode, GPU_ONLY, unsigned int, d->mig_mode, d->mig_mode)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, GPU_ONLY, unsigned int, d->mig_mode == 1 ? MIG_SLICES : 0)
NUMBER(nvmlDeviceIsMigDeviceHandle, ANY, unsigned int, call.mig != NULL)
NUMBER(nvmlDeviceGetGpuInstanceId, ANY, unsigned int, call.mig ? (long long)call.mig->gi : -1)
NUMBER(nvmlDeviceGetComputeInstanceId, ANY, unsigned int, call.mig ? (long long)call.mig->ci : -1)

DEVICE_CALL(nvmlDeviceGetMigDeviceHandleByIndex, GPU_ONLY,
            WITH(unsigned int index, nvmlDevice_t *out), {
    if (out == NULL || index >= MIG_SLICES) return NVML_ERROR_INVALID_ARGUMENT;
    if (d->mig_mode != 1) return NVML_ERROR_NOT_SUPPORTED;
    if ((int)index >= d->mig_count) return NVML_ERROR_NOT_FOUND;
    *out = handle_of(call.slot, (int)index);
    return NVML_SUCCESS;
})
DEVICE_CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, ANY, WITH(nvmlDevice_t *out), {
    if (out == NULL || call.mig == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *out = handle_of(call.slot, -1);
    return NVML_SUCCESS;
})
DEVICE_CALL(nvmlDeviceGetAttributes_v2, ANY, WITH(nvmlDeviceAttributes_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (call.mig == NULL) return NVML_ERROR_NOT_SUPPORTED;
    *out = (nvmlDeviceAttributes_t){
        .multiprocessorCount = 16 * call.mig->slices, .sharedCopyEngineCount = call.mig->slices,
        .sharedDecoderCount = call.mig->slices, .gpuInstanceSliceCount = call.mig->slices,
        .computeInstanceSliceCount = call.mig->slices, .memorySizeMB = call.mig->total >> 20};
    return NVML_SUCCESS;
})

/* ---- GPM: two samples of one device give its metrics ---- */

struct nvmlGpmSample_st {
    int slot;
};

SYSTEM_CALL(nvmlGpmSampleAlloc, (nvmlGpmSample_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *out = malloc(sizeof **out);
    if (*out == NULL) return NVML_ERROR_MEMORY;
    (*out)->slot = -1;
    return NVML_SUCCESS;
})
SYSTEM_CALL(nvmlGpmSampleFree, (nvmlGpmSample_t sample), free(sample); return NVML_SUCCESS;)
DEVICE_CALL(nvmlGpmQueryDeviceSupport, GPU_ONLY, WITH(nvmlGpmSupport_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (out->version != NVML_GPM_SUPPORT_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->isSupportedDevice = d->gpm_count > 0;
    return NVML_SUCCESS;
})
DEVICE_CALL(nvmlGpmSampleGet, GPU_ONLY, WITH(nvmlGpmSample_t sample), {
    if (sample == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (d->gpm_count == 0) return NVML_ERROR_NOT_SUPPORTED;
    sample->slot = call.slot;
    return NVML_SUCCESS;
})

/* No device in the signature, yet it is about one: the guard is told the samples' device. */
SITE(nvmlGpmMetricsGet)
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
    struct call call;
    int slot = get == NULL || get->sample1 == NULL ? -1 : get->sample1->slot;
    if (slot < 0 || get->sample2 == NULL || get->sample2->slot != slot ||
        get->numMetrics > NVML_GPM_METRIC_MAX) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t error = enter(&call, ID(nvmlGpmMetricsGet), GPU_ONLY, handle_of(slot, -1));
    if (error != NVML_SUCCESS) return error;
    if (get->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *m = &get->metrics[i];
        const struct extra *given = extra(call.device->gpm, call.device->gpm_count, m->metricId);
        m->nvmlReturn = given == NULL ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
        m->value = given == NULL ? 0 : given->value;
    }
    return NVML_SUCCESS;
}

/* ---- Events: Xids and double-bit errors, as the control file injects them ---- */

enum { REPORTED = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError };

struct nvmlEventSet_st {
    unsigned int seen;
    unsigned long long registered[DEVICES];
};

static unsigned int newest(const struct node *node) {
    return node->event_count ? node->events[node->event_count - 1].sequence : 0;
}

SYSTEM_CALL(nvmlEventSetCreate, (nvmlEventSet_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return NVML_ERROR_MEMORY;
    (*out)->seen = newest(call.node);
    return NVML_SUCCESS;
})
SYSTEM_CALL(nvmlEventSetFree, (nvmlEventSet_t set), free(set); return NVML_SUCCESS;)
NUMBER(nvmlDeviceGetSupportedEventTypes, GPU_ONLY, unsigned long long, REPORTED)
DEVICE_CALL(nvmlDeviceRegisterEvents, GPU_ONLY, WITH(unsigned long long types, nvmlEventSet_t set), {
    if (set == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (types & ~(unsigned long long)REPORTED) return NVML_ERROR_NOT_SUPPORTED;
    set->registered[call.slot] |= types;
    return NVML_SUCCESS;
})

static int next_event(nvmlEventSet_t set, nvmlEventData_t *out) {
    const struct node *node = look();
    for (const struct event *e = node->events; e < node->events + node->event_count; e++) {
        if (e->sequence <= set->seen) continue;
        set->seen = e->sequence;
        if (!(set->registered[e->slot] & e->type)) continue;
        *out = (nvmlEventData_t){
            .device = handle_of(e->slot, -1), .eventType = e->type, .eventData = e->data,
            .gpuInstanceId = 0xFFFFFFFF, .computeInstanceId = 0xFFFFFFFF};
        return 1;
    }
    return 0;
}

/* Sleeps in the kernel until the control file is written anew, as the driver does until an event:
   a wait that polled would show up in what a reader costs. A fault that comes while it waits counts. */
SYSTEM_CALL(nvmlEventSetWait_v2,
            (nvmlEventSet_t set, nvmlEventData_t *out, unsigned int timeout_ms), {
    if (set == NULL || out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    long long left, deadline = now_ns() + timeout_ms * 1000000LL;
    int news = watch_control();
    nvmlReturn_t outcome = NVML_SUCCESS;
    while (outcome == NVML_SUCCESS && !next_event(set, out)) {
        left = deadline - now_ns();
        if (left <= 0) outcome = NVML_ERROR_TIMEOUT;
        else {
            await_control(news, left);
            outcome = enter(&call, ID(nvmlEventSetWait_v2), SYSTEM, NULL);
        }
    }
    close(news);
    return outcome;
})
