/* The NVML functions of the stand-in that tell what a device is and how it does. */
#include "calls.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static nvmlReturn_t text(char *out, unsigned int length, const char *value) {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (*value == '\0') return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(value) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, value);
    return NVML_SUCCESS;
}

#define TEXT(name, reach, value)                                                                   \
    DEVICE_CALL(name, reach, WITH(char *out, unsigned int length), return text(out, length, value);)

const struct extra *extra(const struct extra *list, int count, unsigned int id) {
    for (int i = 0; i < count; i++)
        if (list[i].id == id) return &list[i];
    return NULL;
}

/* A counter that grew at a constant rate per second since the description was written. */
static long long grown(const struct device *d, long long base, long long rate) {
    return rate <= 0 ? base : base + (long long)((double)rate * (now_ns() - d->since_ns) / 1e9);
}

static long long energy(const struct device *d) {
    return grown(d, d->energy_mj, d->energy_grows ? d->power_mw : 0);
}

/* ---- The library and the system ---- */

SITE(nvmlInit_v2)
nvmlReturn_t nvmlInit_v2(void) { return initialise(ID(nvmlInit_v2), -1); }

SITE(nvmlInitWithFlags)
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    return initialise(ID(nvmlInitWithFlags), (int)flags);
}

SYSTEM_CALL(nvmlShutdown, (void), return finish();)

/* Purely a table in the real library too: it never blocks or fails. */
SITE(nvmlErrorString)
const char *nvmlErrorString(nvmlReturn_t result) {
    count_only(ID(nvmlErrorString));
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires restart";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

SYSTEM_CALL(nvmlSystemGetDriverVersion, (char *out, unsigned int length),
            return text(out, length, call.node->driver_version);)
SYSTEM_CALL(nvmlSystemGetNVMLVersion, (char *out, unsigned int length),
            return text(out, length, call.node->nvml_version);)
SYSTEM_CALL(nvmlSystemGetCudaDriverVersion, (int *out),
            GIVE(out, call.node->cuda_version); return NVML_SUCCESS;)
SYSTEM_CALL(nvmlSystemGetCudaDriverVersion_v2, (int *out),
            GIVE(out, call.node->cuda_version); return NVML_SUCCESS;)

/* ---- Finding a device ---- */

SYSTEM_CALL(nvmlDeviceGetCount_v2, (unsigned int *out), {
    int devices = 0;
    while (slot_at(devices) >= 0) devices++;
    GIVE(out, devices);
    return NVML_SUCCESS;
})

/* The guard is told the device that was asked for: a fault may be on finding just this one. */
static nvmlReturn_t find(int site, nvmlDevice_t found, nvmlReturn_t missing, nvmlDevice_t *out) {
    struct call call;
    nvmlReturn_t error = enter(&call, site, FIND, found);
    if (error != NVML_SUCCESS) return error;
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *out = found;
    return found == NULL ? missing : NVML_SUCCESS;
}

SITE(nvmlDeviceGetHandleByIndex_v2)
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out) {
    int slot = slot_at((int)index);
    return find(ID(nvmlDeviceGetHandleByIndex_v2), slot < 0 ? NULL : handle_of(slot, -1),
                NVML_ERROR_INVALID_ARGUMENT, out);
}

SITE(nvmlDeviceGetHandleByPciBusId_v2)
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *out) {
    const struct node *node = look();
    nvmlDevice_t found = NULL;
    unsigned int a, b, c, domain, bus, place;
    int wanted = sscanf(bus_id, "%x:%x:%x", &a, &b, &c);
    if (wanted == 2) c = b, b = a, a = 0; /* without a domain */
    for (int index = 0, slot; wanted >= 2 && (slot = slot_at(index)) >= 0; index++)
        if (sscanf(node->devices[slot].bus_id, "%x:%x:%x", &domain, &bus, &place) == 3 &&
            domain == a && bus == b && place == c) found = handle_of(slot, -1);
    return find(ID(nvmlDeviceGetHandleByPciBusId_v2), found, NVML_ERROR_NOT_FOUND, out);
}

SITE(nvmlDeviceGetHandleByUUID)
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
    const struct node *node = look();
    nvmlDevice_t found = NULL;
    for (int index = 0, slot; (slot = slot_at(index)) >= 0; index++) {
        const struct device *d = &node->devices[slot];
        if (strcasecmp(d->uuid, uuid) == 0) found = handle_of(slot, -1);
        for (int mig = 0; mig < d->mig_count; mig++)
            if (strcasecmp(d->migs[mig].uuid, uuid) == 0) found = handle_of(slot, mig);
    }
    return find(ID(nvmlDeviceGetHandleByUUID), found, NVML_ERROR_NOT_FOUND, out);
}

/* ---- What it is ---- */

TEXT(nvmlDeviceGetName, ANY, call.mig ? call.mig->name : d->name)
TEXT(nvmlDeviceGetUUID, ANY, call.mig ? call.mig->uuid : d->uuid)
TEXT(nvmlDeviceGetSerial, GPU_ONLY, d->serial)
NUMBER(nvmlDeviceGetIndex, ANY, unsigned int,
       call.mig ? call.mig - d->migs : (long long)index_of(call.slot))
NUMBER(nvmlDeviceGetMinorNumber, GPU_ONLY, unsigned int, d->minor)
NUMBER(nvmlDeviceGetBoardId, GPU_ONLY, unsigned int, 0x100 * (call.slot + 1))
NUMBER(nvmlDeviceGetModuleId, GPU_ONLY, unsigned int, call.slot + 1)
NUMBER(nvmlDeviceGetMultiGpuBoard, GPU_ONLY, unsigned int, 0)
NUMBER(nvmlDeviceGetBrand, GPU_ONLY, nvmlBrandType_t, d->brand)
NUMBER(nvmlDeviceGetArchitecture, ANY, nvmlDeviceArchitecture_t, d->architecture)
PAIR(nvmlDeviceGetCudaComputeCapability, ANY, int, d->capability_major, d->capability_minor)
NUMBER(nvmlDeviceGetPersistenceMode, GPU_ONLY, nvmlEnableState_t, d->persistence)
NUMBER(nvmlDeviceGetComputeMode, GPU_ONLY, nvmlComputeMode_t, d->compute_mode)
NUMBER(nvmlDeviceGetDisplayMode, GPU_ONLY, nvmlEnableState_t, d->display_active)
NUMBER(nvmlDeviceGetDisplayActive, GPU_ONLY, nvmlEnableState_t, d->display_active)
/* A matter of Windows, but nvitop asks on Linux too and complains when the function is missing. */
PAIR(nvmlDeviceGetDriverModel_v2, GPU_ONLY, nvmlDriverModel_t, -1, -1)

DEVICE_CALL(nvmlDeviceGetPciInfo_v3, ANY, WITH(nvmlPciInfo_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    *out = (nvmlPciInfo_t){.pciDeviceId = 0x233510DE, .pciSubSystemId = 0x18BE10DE};
    sscanf(d->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->busId, sizeof out->busId, "%s", d->bus_id);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", out->domain & 0xFFFF,
             out->bus & 0xFF, out->device & 0xFF);
    return NVML_SUCCESS;
})

/* ---- Memory ---- */

DEVICE_CALL(nvmlDeviceGetMemoryInfo, ANY, WITH(nvmlMemory_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (d->unified > 0) return NVML_ERROR_NOT_SUPPORTED;
    /* The first version has no room for the reserved memory and shows it as used. */
    out->total = call.mig ? call.mig->total : (unsigned long long)d->total;
    out->used = call.mig ? call.mig->used : (unsigned long long)(d->used + d->reserved);
    out->free = out->total - out->used;
    return NVML_SUCCESS;
})

DEVICE_CALL(nvmlDeviceGetMemoryInfo_v2, ANY, WITH(nvmlMemory_v2_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    if (out->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (d->unified > 0) return NVML_ERROR_NOT_SUPPORTED;
    out->total = call.mig ? call.mig->total : (unsigned long long)d->total;
    out->used = call.mig ? call.mig->used : (unsigned long long)d->used;
    out->reserved = call.mig ? 0 : (unsigned long long)d->reserved;
    out->free = out->total - out->used - out->reserved;
    return NVML_SUCCESS;
})

DEVICE_CALL(nvmlDeviceGetBAR1MemoryInfo, ANY, WITH(nvmlBAR1Memory_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(&out->bar1Total, d->bar1_total);
    GIVE(&out->bar1Used, d->bar1_used);
    GIVE(&out->bar1Free, d->bar1_total - d->bar1_used);
    return NVML_SUCCESS;
})

/* ---- Load, heat, power, clocks, links ---- */

DEVICE_CALL(nvmlDeviceGetUtilizationRates, UTILISATION, WITH(nvmlUtilization_t *out), {
    if (out == NULL) return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(&out->gpu, d->gpu_utilisation);
    GIVE(&out->memory, d->memory_utilisation);
    return NVML_SUCCESS;
})
PAIR(nvmlDeviceGetEncoderUtilization, UTILISATION, unsigned int, d->encoder, 167000)
PAIR(nvmlDeviceGetDecoderUtilization, UTILISATION, unsigned int, d->decoder, 167000)

DEVICE_CALL(nvmlDeviceGetTemperature, GPU_ONLY,
            WITH(nvmlTemperatureSensors_t sensor, unsigned int *out), {
    if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(out, d->temperature);
    return NVML_SUCCESS;
})
DEVICE_CALL(nvmlDeviceGetTemperatureV, GPU_ONLY, WITH(nvmlTemperature_t *out), {
    if (out == NULL || out->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    if (out->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    GIVE(&out->temperature, d->temperature);
    return NVML_SUCCESS;
})
DEVICE_CALL(nvmlDeviceGetTemperatureThreshold, GPU_ONLY,
            WITH(nvmlTemperatureThresholds_t which, unsigned int *out), {
    const long long known[] = {d->shutdown_temperature, d->slowdown_temperature,
                               d->max_memory_temperature, d->max_operating_temperature};
    if ((unsigned int)which >= NVML_TEMPERATURE_THRESHOLD_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(out, (unsigned int)which < 4 ? known[which] : -1);
    return NVML_SUCCESS;
})

NUMBER(nvmlDeviceGetPowerUsage, GPU_ONLY, unsigned int, d->power_mw)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, GPU_ONLY, unsigned int, d->enforced_limit_mw)
NUMBER(nvmlDeviceGetPowerManagementLimit, GPU_ONLY, unsigned int, d->power_limit_mw)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, GPU_ONLY, unsigned int, d->default_limit_mw)
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, GPU_ONLY, unsigned int, d->min_limit_mw,
     d->max_limit_mw)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, GPU_ONLY, unsigned long long, energy(d))
NUMBER(nvmlDeviceGetFanSpeed, GPU_ONLY, unsigned int, d->fan)
NUMBER(nvmlDeviceGetNumFans, GPU_ONLY, unsigned int, d->fans)
DEVICE_CALL(nvmlDeviceGetFanSpeed_v2, GPU_ONLY, WITH(unsigned int fan, unsigned int *out), {
    if (d->fans >= 0 && (long long)fan >= d->fans) return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(out, d->fan);
    return NVML_SUCCESS;
})

static long long clock_of(const struct device *d, nvmlClockType_t type, int max) {
    switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM: return max ? d->max_sm_clock : d->sm_clock;
    case NVML_CLOCK_MEM: return max ? d->max_memory_clock : d->memory_clock;
    case NVML_CLOCK_VIDEO: return max ? d->max_video_clock : d->video_clock;
    default: return -1;
    }
}
DEVICE_CALL(nvmlDeviceGetClockInfo, GPU_ONLY, WITH(nvmlClockType_t type, unsigned int *out),
            GIVE(out, clock_of(d, type, 0)); return NVML_SUCCESS;)
DEVICE_CALL(nvmlDeviceGetMaxClockInfo, GPU_ONLY, WITH(nvmlClockType_t type, unsigned int *out),
            GIVE(out, clock_of(d, type, 1)); return NVML_SUCCESS;)
DEVICE_CALL(nvmlDeviceGetClock, GPU_ONLY,
            WITH(nvmlClockType_t type, nvmlClockId_t which, unsigned int *out),
            GIVE(out, clock_of(d, type, which != NVML_CLOCK_ID_CURRENT)); return NVML_SUCCESS;)

NUMBER(nvmlDeviceGetCurrentClocksEventReasons, GPU_ONLY, unsigned long long, d->clock_reasons)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, GPU_ONLY, unsigned long long, d->clock_reasons)
NUMBER(nvmlDeviceGetSupportedClocksEventReasons, GPU_ONLY, unsigned long long, 0x1FF)
NUMBER(nvmlDeviceGetPerformanceState, GPU_ONLY, nvmlPstates_t, d->pstate)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, GPU_ONLY, unsigned int, d->pcie_gen)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, GPU_ONLY, unsigned int, d->pcie_width)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, GPU_ONLY, unsigned int, d->max_pcie_gen)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, GPU_ONLY, unsigned int, d->max_pcie_width)

DEVICE_CALL(nvmlDeviceGetPcieThroughput, GPU_ONLY,
            WITH(nvmlPcieUtilCounter_t which, unsigned int *out), {
    long long rate = which == NVML_PCIE_UTIL_TX_BYTES ? d->pcie_tx_kb : d->pcie_rx_kb;
    pause_ns(20000000); /* the real one measures over 20 ms, and this is why callers avoid it */
    GIVE(out, rate);
    return NVML_SUCCESS;
})

/* ---- Errors of the memory ---- */

PAIR(nvmlDeviceGetEccMode, GPU_ONLY, nvmlEnableState_t, d->ecc_mode, d->ecc_pending)

static long long ecc(const struct device *d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t since) {
    if (d->ecc_mode != NVML_FEATURE_ENABLED) return -1;
    if (since == NVML_VOLATILE_ECC)
        return type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? d->ecc_corrected : d->ecc_uncorrected;
    return type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? d->ecc_corrected_aggregate
                                                    : d->ecc_uncorrected_aggregate;
}
DEVICE_CALL(nvmlDeviceGetTotalEccErrors, GPU_ONLY,
            WITH(nvmlMemoryErrorType_t type, nvmlEccCounterType_t since, unsigned long long *out),
            GIVE(out, ecc(d, type, since)); return NVML_SUCCESS;)
DEVICE_CALL(nvmlDeviceGetMemoryErrorCounter, GPU_ONLY,
            WITH(nvmlMemoryErrorType_t type, nvmlEccCounterType_t since,
                 nvmlMemoryLocation_t location, unsigned long long *out), {
    GIVE(out, ecc(d, type, since));
    if (location != NVML_MEMORY_LOCATION_DEVICE_MEMORY) *out = 0;
    return NVML_SUCCESS;
})
DEVICE_CALL(nvmlDeviceGetRemappedRows, GPU_ONLY,
            WITH(unsigned int *correctable, unsigned int *uncorrectable, unsigned int *pending,
                 unsigned int *failed), {
    GIVE(correctable, d->remapped_correctable);
    GIVE(uncorrectable, d->remapped_uncorrectable);
    GIVE(pending, d->remap_pending);
    GIVE(failed, d->remap_failed);
    return NVML_SUCCESS;
})

/* ---- Field values ---- */

static const unsigned int ALL_LINKS = 0xFFFFFFFF;

/* A counter of a link that the device may not have. */
static long long growing(const struct device *d, long long base, long long rate) {
    return rate < 0 ? -1 : grown(d, base, rate);
}

/* An H200 counts PCIe bytes with 32 bits. */
static long long wrapped(const struct device *d, long long base, long long kb) {
    return kb < 0 ? -1 : grown(d, base, kb * 1024) & 0xFFFFFFFF;
}

static long long field(const struct device *d, unsigned int id, unsigned int scope,
                       nvmlValueType_t *type) {
    const struct extra *given = extra(d->fields, d->field_count, id);
    *type = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
    if (given != NULL) return (long long)given->value;
    if (id >= NVML_FI_DEV_PERF_POLICY_POWER && id <= NVML_FI_DEV_PERF_POLICY_TOTAL_BASE_CLOCKS)
        return 0;
    switch (id) {
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: return energy(d);
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
        return scope == ALL_LINKS ? growing(d, d->nvlink_tx_counted_kb, d->nvlink_tx_kb) : -1;
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
        return scope == ALL_LINKS ? growing(d, d->nvlink_rx_counted_kb, d->nvlink_rx_kb) : -1;
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN:
    case NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN: return 0;
    default: *type = NVML_VALUE_TYPE_UNSIGNED_INT;
    }
    switch (id) {
    case NVML_FI_DEV_PCIE_COUNT_TX_BYTES: return wrapped(d, d->pcie_tx_bytes, d->pcie_tx_kb);
    case NVML_FI_DEV_PCIE_COUNT_RX_BYTES: return wrapped(d, d->pcie_rx_bytes, d->pcie_rx_kb);
    case NVML_FI_DEV_MEMORY_TEMP: return d->memory_temperature;
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT: return scope == NVML_POWER_SCOPE_GPU ? d->power_mw : -1;
    default: return -1;
    }
}

DEVICE_CALL(nvmlDeviceGetFieldValues, GPU_ONLY, WITH(int count, nvmlFieldValue_t *values), {
    if (values == NULL || count <= 0) return NVML_ERROR_INVALID_ARGUMENT;
    for (nvmlFieldValue_t *value = values; value < values + count; value++) {
        long long number = field(d, value->fieldId, value->scopeId, &value->valueType);
        value->timestamp = now_ns() / 1000;
        value->latencyUsec = 0;
        value->nvmlReturn = number < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
        value->value.ullVal = 0;
        if (value->valueType == NVML_VALUE_TYPE_UNSIGNED_INT)
            value->value.uiVal = (unsigned int)number;
        else value->value.ullVal = (unsigned long long)number;
    }
    return NVML_SUCCESS;
})
