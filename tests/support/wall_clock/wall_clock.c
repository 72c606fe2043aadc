/* The wall clock of a process under test, set by a file while it runs: $TEST_WALL_CLOCK holds three
 * 64-bit numbers, an offset in seconds, how many seconds it gains in each, and the nanosecond of the
 * steady clock at which it began to. Clocks that no one can set are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL

struct setting { int64_t offset, gains, since_ns; };
static const volatile struct setting *set;
static pid_t mapped_by;

/* A forked command is told of its clock only after the fork. */
static void map(void) {
    const char *path = getenv("TEST_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof *set, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) {
        set = page;
        mapped_by = getpid();
    }
    close(file);
}

static void advance(struct timespec *now) {
    int64_t ns = now->tv_nsec;
    if (set->gains) {
        struct timespec steady;
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
        ns += (steady.tv_sec * NS + steady.tv_nsec - set->since_ns) * set->gains;
    }
    now->tv_sec += set->offset + ns / NS;
    now->tv_nsec = ns % NS;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (mapped_by != getpid()) map();
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && set && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) advance(now);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    if (!failed) *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *out) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}
