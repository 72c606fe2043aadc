/* Reads the description of the node, counts the calls and applies the faults to them. */
#define _GNU_SOURCE
#include "standin.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "default_control.h" /* written by the build: DEFAULT_CONTROL, one healthy device */

enum { NODES = 8, POLL_NS = 20000000, NO_DEVICE = DEVICES };

/* The calls file. layout.py knows the same order and sizes. */
struct shared {
    uint64_t generation, totals_only;
    uint8_t fired[FIRED];
    uint64_t flags[FLAGS];
    char names[FUNCTIONS][NAME];
    uint64_t total[FUNCTIONS][DEVICES + 1];
    uint64_t faulted[FUNCTIONS][DEVICES + 1];
    _Alignas(4096) uint64_t seconds[FUNCTIONS][DEVICES + 1][RING]; /* second << 32 | calls */
};
_Static_assert(sizeof(struct shared) == SIZE, "layout.py and struct shared differ");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *shared;
static char attached[PATH];
/* A reader keeps a node for microseconds, so that one of eight generations ago is free for reuse. */
static struct node nodes[NODES];
static struct node *current;
static int references, visible[DEVICES], visible_count;
static unsigned long long initialised_epoch;
static char handles[DEVICES][MIGS + 1];

static void fail(const char *what, const char *which) {
    fprintf(stderr, "stand-in libnvidia-ml: %s: %s\n", what, which);
    abort();
}

long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void pause_ns(long long nanoseconds) {
    struct timespec span = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    nanosleep(&span, NULL);
}

nvmlDevice_t handle_of(int slot, int mig) { return (nvmlDevice_t)&handles[slot][mig + 1]; }

int slot_at(int index) { return index >= 0 && index < visible_count ? visible[index] : -1; }

int index_of(int slot) {
    for (int index = 0; index < visible_count; index++)
        if (visible[index] == slot) return index;
    return -1;
}

/* ---- The description ----

   Lines of a key and its value. First the node (driver_version, nvml_version, cuda_version, epoch,
   rule, event), then each device: a line `device`, and below it what belongs to that device. A key
   that is not known stops the process, or a misspelt test would pass. */

static int site_named(const char *name) {
    if (strcmp(name, "*") == 0) return -1;
    for (const char **site = __start_sites; site < __stop_sites; site++)
        if (strcmp(*site, name) == 0) return (int)(site - __start_sites);
    fail("a fault names a function this library does not have", name);
    return -1;
}

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

static int one_of(const char *word, const char *const *words) {
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0) return i;
    fail("unknown word in the control file", word);
    return -1;
}

static int room(int count, int limit, const char *what) {
    if (count >= limit) fail("too many in the control file", what);
    return count;
}

static void read_device_line(struct device *d, const char *key, char *rest) {
    static const char *const kinds[] = {"compute", "graphics", "mps", NULL};
    if (strcmp(key, "process") == 0) {
        struct process *p = &d->processes[room(d->process_count++, PROCESSES, key)];
        char kind[16];
        long long memory;
        sscanf(rest, "%u %15s %lld %d %d", &p->pid, kind, &memory, &p->sm, &p->mig);
        p->memory = (unsigned long long)memory; /* -1 is NVML's "not available" */
        p->kind = (enum kind)one_of(kind, kinds);
    } else if (strcmp(key, "mig") == 0) {
        struct mig *m = &d->migs[room(d->mig_count++, MIGS, key)];
        sscanf(rest, "%95s %llu %llu %u %u %u %95[^\n]", m->uuid, &m->total, &m->used, &m->gi,
               &m->ci, &m->slices, m->name);
    } else if (strcmp(key, "field") == 0) {
        struct extra *field = &d->fields[room(d->field_count++, EXTRAS, key)];
        sscanf(rest, "%u %lf", &field->id, &field->value);
    } else if (strcmp(key, "gpm") == 0) {
        struct extra *metric = &d->gpm[room(d->gpm_count++, EXTRAS, key)];
        sscanf(rest, "%u %lf", &metric->id, &metric->value);
    } else if (strcmp(key, "uuid") == 0) copy(d->uuid, sizeof d->uuid, rest);
    else if (strcmp(key, "name") == 0) copy(d->name, sizeof d->name, rest);
    else if (strcmp(key, "bus_id") == 0) copy(d->bus_id, sizeof d->bus_id, rest);
    else if (strcmp(key, "serial") == 0) copy(d->serial, sizeof d->serial, rest);
#define READ(field) else if (strcmp(key, #field) == 0) d->field = strtoll(rest, NULL, 10);
    NUMBERS(READ)
#undef READ
    else fail("unknown key in the control file", key);
}

static void read_rule(struct rule *rule, char *rest) {
    static const char *const actions[] = {"error", "delay", "hang", "hang_file", "crash",
                                          "crash_once", NULL};
    char action[16], function[NAME];
    int at = 0;
    sscanf(rest, "%15s %d %63s %n", action, &rule->slot, function, &at);
    rule->action = (enum action)one_of(action, actions);
    rule->site = site_named(function);
    rule->value = strtoll(rest + at, NULL, 10);
    copy(rule->path, sizeof rule->path, rest + at);
}

static void read_node(struct node *node, char *text) {
    struct device *device = NULL;
    node->epoch = 0;
    node->device_count = node->rule_count = node->event_count = 0;
    for (char *line, *next = text; (line = strsep(&next, "\n")) != NULL;) {
        char *rest = line;
        const char *key = strsep(&rest, " ");
        if (*key == '\0') continue;
        if (rest == NULL) rest = line + strlen(line);
        if (strcmp(key, "device") == 0) {
            device = &node->devices[room(node->device_count++, DEVICES, key)];
            memset(device, 0, sizeof *device);
        } else if (device != NULL) read_device_line(device, key, rest);
        else if (strcmp(key, "epoch") == 0) node->epoch = strtoull(rest, NULL, 10);
        else if (strcmp(key, "driver_version") == 0)
            copy(node->driver_version, sizeof node->driver_version, rest);
        else if (strcmp(key, "nvml_version") == 0)
            copy(node->nvml_version, sizeof node->nvml_version, rest);
        else if (strcmp(key, "cuda_version") == 0) node->cuda_version = atoi(rest);
        else if (strcmp(key, "rule") == 0)
            read_rule(&node->rules[room(node->rule_count++, RULES, key)], rest);
        else if (strcmp(key, "event") == 0) {
            struct event *e = &node->events[room(node->event_count++, EVENTS, key)];
            sscanf(rest, "%u %d %llu %llu", &e->sequence, &e->slot, &e->type, &e->data);
        } else fail("unknown key in the control file", key);
    }
}

static char *read_control(void) {
    char path[PATH + 16], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/control", attached);
    FILE *file = attached[0] ? fopen(path, "re") : NULL;
    if (file == NULL) return strdup(DEFAULT_CONTROL);
    if (getdelim(&text, &size, '\0', file) < 0) fail("cannot read", path);
    fclose(file);
    return text;
}

/* Holds the lock. The generation is read before the file: a file newer than its number is only
   read once more, never missed. */
static void load(void) {
    static int turn;
    uint64_t generation = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
    struct node *node = &nodes[++turn % NODES];
    char *text = read_control();
    read_node(node, text);
    free(text);
    node->generation = generation;
    __atomic_store_n(&current, node, __ATOMIC_RELEASE);
}

/* Holds the lock. An earlier folder stays mapped, for a hung call may still count in it. */
static void attach(void) {
    const char *folder = getenv("STANDIN_FOLDER");
    if (folder == NULL) folder = "";
    if (shared != NULL && strcmp(folder, attached) == 0) return;
    copy(attached, sizeof attached, folder);
    int file = -1;
    if (*folder) {
        char path[PATH + 16];
        snprintf(path, sizeof path, "%s/calls", folder);
        file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0 || ftruncate(file, sizeof(struct shared)) != 0) fail("cannot use", path);
    }
    struct shared *map = mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE,
                              file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (map == MAP_FAILED) fail("cannot map the calls file in", folder);
    if (file >= 0) close(file);
    for (const char **site = __start_sites; site < __stop_sites; site++)
        copy(map->names[room((int)(site - __start_sites), FUNCTIONS, "functions")], NAME, *site);
    shared = map;
    load();
}

/* A descriptor that becomes readable when the bell rings: a new description has its number. */
int watch_control(void) {
    int news = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (news >= 0 && attached[0]) inotify_add_watch(news, attached, IN_CLOSE_WRITE);
    return news;
}

/* Returns when it was, or after this time. */
void await_control(int news, long long nanoseconds) {
    char said[4096];
    struct pollfd change = {.fd = news, .events = POLLIN};
    if (poll(&change, 1, (int)((nanoseconds + 999999) / 1000000)) <= 0) return;
    while (read(news, said, sizeof said) > 0) continue;
}

const struct node *look(void) {
    const struct node *node = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    if (node != NULL &&
        node->generation == __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE)) return node;
    pthread_mutex_lock(&lock);
    if (shared == NULL) attach();
    else load();
    node = current;
    pthread_mutex_unlock(&lock);
    return node;
}

/* ---- One call ---- */

static void count(int site, int slot) {
    struct timespec now;
    int place = slot < 0 ? NO_DEVICE : slot;
    __atomic_fetch_add(&shared->total[site][place], 1, __ATOMIC_RELAXED);
    if (shared->totals_only) return;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    uint64_t *cell = &shared->seconds[site][place][now.tv_sec % RING];
    uint64_t seen = __atomic_load_n(cell, __ATOMIC_RELAXED), fresh = (uint64_t)now.tv_sec << 32;
    while (seen >> 32 != (uint64_t)now.tv_sec)
        if (__atomic_compare_exchange_n(cell, &seen, fresh | 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) return;
    __atomic_fetch_add(cell, 1, __ATOMIC_RELAXED);
}

void count_only(int site) {
    look();
    count(site, -1);
}

/* Blocks in the kernel, beyond the reach of signals, when the file is on a frozen file system. */
static void write_to(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) fail("cannot open the file to hang on", path);
    if (write(file, "hang\n", 5) == 5) fsync(file);
    close(file);
}

static int applies(const struct rule *rule, int site, int slot, enum reach reach) {
    if (rule->slot >= 0 && rule->slot != slot) return 0;
    if (rule->site >= 0) return rule->site == site;
    /* "Every function" of one device means those given its handle, not those that look it up. */
    return rule->slot < 0 || reach >= ANY;
}

static nvmlReturn_t suffer(struct call *call, int site, enum reach reach) {
    nvmlReturn_t error = NVML_SUCCESS;
    int counted = 0;
    for (int i = 0; i < call->node->rule_count; i++) {
        const struct rule *rule = &call->node->rules[i];
        if (!applies(rule, site, call->slot, reach)) continue;
        if (!counted++)
            __atomic_fetch_add(&shared->faulted[site][call->slot < 0 ? NO_DEVICE : call->slot], 1,
                               __ATOMIC_RELAXED);
        switch (rule->action) {
        case ERROR: error = (nvmlReturn_t)rule->value; break;
        case DELAY: pause_ns(rule->value * 1000); break;
        case HANG:
            pause_ns(POLL_NS);
            call->node = look();
            error = NVML_SUCCESS;
            i = -1; /* the rules may have changed: begin again */
            break;
        case HANG_FILE: write_to(rule->path); break;
        case CRASH_ONCE:
            if (__atomic_exchange_n(&shared->fired[rule->value % FIRED], 1, __ATOMIC_RELAXED)) break;
            /* fall through */
        case CRASH: raise(SIGSEGV); break;
        }
    }
    return error;
}

nvmlReturn_t enter(struct call *call, int site, enum reach reach, nvmlDevice_t handle) {
    ptrdiff_t offset = (char *)handle - &handles[0][0];
    int known = handle != NULL && offset >= 0 && offset < (ptrdiff_t)sizeof handles;
    int mig = known ? (int)(offset % (MIGS + 1)) - 1 : -1;
    call->slot = known ? (int)(offset / (MIGS + 1)) : -1;
    call->node = look();
    count(site, call->slot);
    nvmlReturn_t error = call->node->rule_count ? suffer(call, site, reach) : NVML_SUCCESS;
    if (reach != INIT && (references == 0 || call->node->epoch != initialised_epoch))
        return NVML_ERROR_UNINITIALIZED;
    if (error != NVML_SUCCESS || reach < ANY) return error;
    if (!known || index_of(call->slot) < 0) return NVML_ERROR_INVALID_ARGUMENT;
    if (call->slot >= call->node->device_count) return NVML_ERROR_GPU_IS_LOST;
    call->device = &call->node->devices[call->slot];
    if (mig >= call->device->mig_count) return NVML_ERROR_INVALID_ARGUMENT;
    call->mig = mig < 0 ? NULL : &call->device->migs[mig];
    if ((reach >= GPU_ONLY && call->mig) || (reach == UTILISATION && call->device->mig_mode == 1))
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* A first Init takes the folder that the environment names now: one process can test many. */
nvmlReturn_t initialise(int site, int flags) {
    struct call call;
    pthread_mutex_lock(&lock);
    if (references == 0) attach();
    pthread_mutex_unlock(&lock);
    if (flags >= 0) __atomic_fetch_add(&shared->flags[flags % FLAGS], 1, __ATOMIC_RELAXED);
    nvmlReturn_t error = enter(&call, site, INIT, NULL);
    if (error != NVML_SUCCESS) return error;
    pthread_mutex_lock(&lock);
    if (references == 0 || initialised_epoch != call.node->epoch) {
        references = visible_count = 0;
        initialised_epoch = call.node->epoch;
        for (int slot = 0; slot < call.node->device_count; slot++)
            if (!call.node->devices[slot].removed) visible[visible_count++] = slot;
    }
    references++;
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

nvmlReturn_t finish(void) {
    pthread_mutex_lock(&lock);
    references--;
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}
