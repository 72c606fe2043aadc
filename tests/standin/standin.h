/* What the stand-in's two halves share: the node as described, and the guard every call passes. */
#ifndef STANDIN_H
#define STANDIN_H

/* Only the NVML functions are exported; the rest of the library is built hidden. */
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

/* The build passes these in from layout.py, so that Python reads the shared file as C writes it. */
#ifndef DEVICES
#error "build with tests/standin/build.py, which passes the layout of the calls file"
#endif

enum { PROCESSES = 128, MIGS = 8, EXTRAS = 64, RULES = 256, EVENTS = 64, PATH = 512 };

/* A device's numbers: the field, and the key in the control file. Below zero: not supported. */
#define NUMBERS(X)                                                                                 \
    X(total) X(reserved) X(used) X(unified) X(bar1_total) X(bar1_used)                             \
    X(gpu_utilisation) X(memory_utilisation) X(encoder) X(decoder)                                 \
    X(temperature) X(memory_temperature) X(shutdown_temperature) X(slowdown_temperature)           \
    X(max_operating_temperature) X(max_memory_temperature)                                         \
    X(power_mw) X(power_limit_mw) X(enforced_limit_mw) X(default_limit_mw)                         \
    X(min_limit_mw) X(max_limit_mw) X(fan) X(fans)                                                 \
    X(sm_clock) X(memory_clock) X(video_clock)                                                     \
    X(max_sm_clock) X(max_memory_clock) X(max_video_clock) X(clock_reasons) X(pstate)              \
    X(pcie_gen) X(pcie_width) X(max_pcie_gen) X(max_pcie_width) X(pcie_tx_kb) X(pcie_rx_kb)        \
    X(ecc_mode) X(ecc_pending) X(ecc_corrected) X(ecc_uncorrected)                                 \
    X(ecc_corrected_aggregate) X(ecc_uncorrected_aggregate)                                        \
    X(remapped_correctable) X(remapped_uncorrectable) X(remap_pending) X(remap_failed)             \
    X(architecture) X(capability_major) X(capability_minor) X(brand) X(minor) X(mig_mode)          \
    X(persistence) X(compute_mode) X(display_active) X(removed)                                    \
    X(nvlink_tx_kb) X(nvlink_rx_kb) X(nvlinks) X(nvlink_peer) X(pcie_switch) X(socket)             \
    X(first_cpu) X(last_cpu)                                                                       \
    X(since_ns) X(energy_mj) X(energy_grows) X(pcie_tx_bytes) X(pcie_rx_bytes)                     \
    X(nvlink_tx_counted_kb) X(nvlink_rx_counted_kb)

enum kind { COMPUTE, GRAPHICS, MPS };

struct process {
    unsigned int pid;
    enum kind kind;
    unsigned long long memory;
    int sm; /* percent, below zero: no sample */
    int mig; /* position in migs, below zero: on the whole GPU */
};

struct mig {
    char uuid[96], name[96];
    unsigned long long total, used;
    unsigned int gi, ci, slices;
};

struct extra {
    unsigned int id;
    double value;
};

struct device {
    char uuid[96], name[96], bus_id[32], serial[32];
#define FIELD(key) long long key;
    NUMBERS(FIELD)
#undef FIELD
    int mig_count, process_count, field_count, gpm_count;
    struct mig migs[MIGS];
    struct process processes[PROCESSES];
    struct extra fields[EXTRAS], gpm[EXTRAS];
};

enum action { ERROR, DELAY, HANG, HANG_FILE, CRASH, CRASH_ONCE };

struct rule {
    enum action action;
    int slot; /* below zero: the whole node */
    int site; /* below zero: every function */
    long long value;
    char path[PATH];
};

struct event {
    unsigned int sequence;
    int slot;
    unsigned long long type, data;
};

struct node {
    unsigned long long generation, epoch;
    char driver_version[80], nvml_version[80];
    int cuda_version, device_count, rule_count, event_count;
    struct rule rules[RULES];
    struct event events[EVENTS];
    struct device devices[DEVICES];
};

/* Which handles a function answers for: MIG instances have memory and processes, no sensors, and
   utilisation is not known for the whole GPU either once MIG is on. */
enum reach { INIT, SYSTEM, FIND, ANY, GPU_ONLY, UTILISATION };

struct call {
    const struct node *node;
    const struct device *device;
    const struct mig *mig; /* NULL: the whole GPU */
    int slot;
};

/* Each function leaves its name in one linker section; its place there is its number. */
#define SITE(name) static const char *site_##name __attribute__((section("sites"), used)) = #name;
#define ID(name) ((int)(&site_##name - __start_sites))
extern const char *__start_sites[] __attribute__((visibility("hidden")));
extern const char *__stop_sites[] __attribute__((visibility("hidden")));

const struct node *look(void);
nvmlReturn_t enter(struct call *call, int site, enum reach reach, nvmlDevice_t handle);
void count_only(int site);
nvmlReturn_t initialise(int site, int flags);
nvmlReturn_t finish(void);
nvmlDevice_t handle_of(int slot, int mig);
int slot_at(int index);
int index_of(int slot);
void pause_ns(long long nanoseconds);
int watch_control(void);
void await_control(int news, long long nanoseconds);
long long now_ns(void);

#endif
