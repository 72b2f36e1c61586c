// Makes one function of the CUDA driver fail, because a real driver does not fail on demand.
//
// LD_PRELOAD loads this before the C library. It replaces dlsym, through which the node finds the
// driver's functions. All other calls go to the real driver. Use it only for the programs under
// test: it does not work beside another library that replaces dlsym.
//
// ROBOCACHE_TEST_FAULT=FUNCTION:CALLS:STATUS: after CALLS calls, FUNCTION does nothing and returns
// STATUS. All other functions still work. With a really lost device they would fail too, and the
// threads would decide which one fails first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    WITH(cuLaunchKernelEx, 4)      \
    WITH(cuStreamSynchronize, 5)   \
    WITH(cuEventSynchronize, 6)

enum { COUNT = 7 };
static Function real[COUNT];
static atomic_long calls;

static int call(int number, const char *name, long a, long b, long c, long d) {
    const char *fault = getenv("ROBOCACHE_TEST_FAULT");
    char function[64];
    long after;
    int status;
    if (fault != NULL && sscanf(fault, "%63[^:]:%ld:%d", function, &after, &status) == 3) {
        if (strcmp(name, function) == 0 && atomic_fetch_add(&calls, 1) >= after) return status;
    }
    return real[number](a, b, c, d);
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
