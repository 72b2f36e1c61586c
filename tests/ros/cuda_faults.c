// Makes one function of the CUDA driver fail, for tests of what the node does then: a driver does not
// fail on demand. Loaded before the C library (LD_PRELOAD), it answers for dlsym, through which the
// driver's functions are found, and hands all other calls to the real driver. For the programs under
// test alone: another library that answers for dlsym would find itself.
//
// ROBOCACHE_TEST_FAULT=FUNCTION:CALLS:STATUS: after that many calls FUNCTION does nothing, and returns
// STATUS. Of a lost device all others would fail, too, and which one first would depend on the threads.
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

// None takes more than four arguments, all of them integers or pointers. On the 64-bit systems that ROS 2
// has, these stand in registers of their own, so that one type of function hands on all of them.
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
