/* The NVML functions of the stand-in that tell where a device is, and what it is linked with. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

DEVICE_CALL(nvmlDeviceGetNvLinkState, GPU_ONLY, WITH(unsigned int link, nvmlEnableState_t *out), {
    if (d->nvlinks < 0) return NVML_ERROR_NOT_SUPPORTED;
    if (link >= 18) return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(out, (long long)link < d->nvlinks ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
    return NVML_SUCCESS;
})

DEVICE_CALL(nvmlDeviceGetNvLinkRemoteDeviceType, GPU_ONLY,
            WITH(unsigned int link, nvmlIntNvLinkDeviceType_t *out), {
    if ((long long)link >= d->nvlinks) return NVML_ERROR_NOT_SUPPORTED;
    GIVE(out, d->nvlink_peer < 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU);
    return NVML_SUCCESS;
})

DEVICE_CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, GPU_ONLY,
            WITH(unsigned int link, nvmlPciInfo_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if ((long long)link >= d->nvlinks || d->nvlink_peer < 0) return NVML_ERROR_NOT_SUPPORTED;
    if (d->nvlink_peer >= call.node->device_count) return NVML_ERROR_UNKNOWN;
    const struct device *peer = &call.node->devices[d->nvlink_peer];
    *out = (nvmlPciInfo_t){.pciDeviceId = 0x233510DE};
    sscanf(peer->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->busId, sizeof out->busId, "%s", peer->bus_id);
    return NVML_SUCCESS;
})

DEVICE_CALL(nvmlDeviceGetTopologyCommonAncestor, GPU_ONLY,
            WITH(nvmlDevice_t other, nvmlGpuTopologyLevel_t *out), {
    const struct device *o = NULL;
    for (int slot = 0; slot < call.node->device_count; slot++)
        if (handle_of(slot, -1) == other) o = &call.node->devices[slot];
    if (o == NULL || out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (d->pcie_switch < 0 || o->pcie_switch < 0) return NVML_ERROR_NOT_SUPPORTED;
    *out = d->pcie_switch == o->pcie_switch ? NVML_TOPOLOGY_SINGLE
           : d->socket == o->socket         ? NVML_TOPOLOGY_NODE
                                            : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
})

static nvmlReturn_t bits(unsigned int size, unsigned long *out, long long first, long long last) {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (first < 0) return NVML_ERROR_NOT_SUPPORTED;
    memset(out, 0, size * sizeof *out);
    for (long long bit = first; bit <= last && bit < 64 * (long long)size; bit++)
        out[bit / 64] |= 1UL << (bit % 64);
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetCpuAffinity, GPU_ONLY, WITH(unsigned int size, unsigned long *out),
            return bits(size, out, d->first_cpu, d->last_cpu);)

DEVICE_CALL(nvmlDeviceGetMemoryAffinity, GPU_ONLY,
            WITH(unsigned int size, unsigned long *out, nvmlAffinityScope_t scope),
            (void)scope; return bits(size, out, d->socket, d->socket);)
