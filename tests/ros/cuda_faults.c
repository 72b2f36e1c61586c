// Makes functions of the CUDA driver fail or hang, because a real driver does not do so on demand.
//
// LD_PRELOAD loads this before the C library. It replaces dlsym, through which the node finds the
// driver's functions. All other calls go to the real driver. Use it only for the programs under
// test: it does not work beside another library that replaces dlsym.
//
// ROBOCACHE_TEST_FAULT=FUNCTION:WHEN:STATUS: from WHEN on, FUNCTION does nothing and returns STATUS.
//
// - FUNCTION is a name from the list below, or `any`: all of them.
// - WHEN is a number of calls, or seconds since this was loaded, such as `6s`.
// - STATUS is a number, or `hang`: the call never returns.
//
// If FUNCTION is one name, all other functions still work. With a really lost device they would fail
// too, and the threads would decide which one fails first: that is `any`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __aarch64__
#define FIRST_VERSION "GLIBC_2.17"
#else
#define FIRST_VERSION "GLIBC_2.2.5"
#endif

// Each function takes at most four arguments, all of them integers or pointers. On the 64-bit
// systems of ROS 2 each one has its own register, so one function type can pass all of them on.
typedef int (*Function)(long, long, long, long);

// name, number
#define FUNCTIONS(WITH)            \
    WITH(cuInit, 0)                \
    WITH(cuMemAlloc_v2, 1)         \
    WITH(cuMemHostAlloc, 2)        \
    WITH(cuMemcpyHtoDAsync_v2, 3)  \
    WITH(cuMemcpyDtoHAsync_v2, 4)  \
    WITH(cuLaunchKernelEx, 5)      \
    WITH(cuStreamSynchronize, 6)   \
    WITH(cuStreamQuery, 7)         \
    WITH(cuEventRecord, 8)         \
    WITH(cuEventSynchronize, 9)    \
    WITH(cuCtxSynchronize, 10)     \
    WITH(cuMemFree_v2, 11)         \
    WITH(cuMemFreeHost, 12)        \
    WITH(cuMemHostUnregister, 13)  \
    WITH(cuEventDestroy_v2, 14)    \
    WITH(cuStreamDestroy_v2, 15)   \
    WITH(cuModuleUnload, 16)

enum { COUNT = 17 };
static Function real[COUNT];
static atomic_long calls;
static struct timespec loaded;

__attribute__((constructor)) static void load(void) { clock_gettime(CLOCK_MONOTONIC, &loaded); }

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - loaded.tv_sec) + (double)(now.tv_nsec - loaded.tv_nsec) * 1e-9;
}

// Whether a call of this function is to fail; `status` is then what it returns.
static int fails(const char *name, char status[16]) {
    const char *fault = getenv("ROBOCACHE_TEST_FAULT");
    char function[64], when[32], *end;
    if (fault == NULL || sscanf(fault, "%63[^:]:%31[^:]:%15s", function, when, status) != 3) {
        return 0;
    }
    if (strcmp(function, "any") != 0 && strcmp(function, name) != 0) return 0;
    long after = strtol(when, &end, 10);
    return *end == 's' ? seconds() >= (double)after : atomic_fetch_add(&calls, 1) >= after;
}

static int call(int number, const char *name, long a, long b, long c, long d) {
    char status[16];
    if (!fails(name, status)) return real[number](a, b, c, d);
    while (strcmp(status, "hang") == 0) pause();
    return atoi(status);
}

#define DEFINE(NAME, NUMBER)                            \
    static int NAME(long a, long b, long c, long d) {   \
        return call(NUMBER, #NAME, a, b, c, d);         \
    }
FUNCTIONS(DEFINE)

void *dlsym(void *library, const char *name) {
    static void *(*real_dlsym)(void *, const char *);
    if (real_dlsym == NULL) real_dlsym = dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
    void *found = real_dlsym(library, name);
#define REPLACE(NAME, NUMBER)                        \
    if (found != NULL && strcmp(name, #NAME) == 0) { \
        real[NUMBER] = (Function)found;              \
        return (void *)NAME;                         \
    }
    FUNCTIONS(REPLACE)
    return found;
}
