// Makes functions of the CUDA driver fail or hang, and lets a GPU look like another one, because a real
// driver does not do so on demand.
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
// ROBOCACHE_TEST_ATTRIBUTES=NUMBER=VALUE,...: what the device says of itself, by the numbers of
// CUdevice_attribute. With `91=0` (the device cannot use the host's pointer to registered memory), such
// memory has another address for kernels, as on some integrated GPUs. There they write to a copy, which
// goes to the memory when a stream was waited for.
//
// If FUNCTION is one name, all other functions still work. With a really lost device they would fail
// too, and the threads would decide which one fails first: that is `any`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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

// --- attributes, and registered memory that has another address for kernels ---------------------------

enum { UNIFIED_POINTER = 91, MOST_COPIES = 4096 };
static int (*attribute_of)(int *, int, int);
static int (*host_alloc)(void **, size_t, unsigned);
static int (*host_free)(void *);
static int (*register_memory)(void *, size_t, unsigned);
static int (*unregister_memory)(void *);
static int (*synchronize)(void *);
static struct {
    void *memory, *copy, *known; // what `copy` held after the last wait
    size_t size;
} copies[MOST_COPIES];
static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

// Sets `value` if the environment has one for this attribute.
static int faked(int attribute, int *value) {
    const char *text = getenv("ROBOCACHE_TEST_ATTRIBUTES");
    for (; text != NULL && *text != 0; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
        int number, fake;
        if (sscanf(text, "%d=%d", &number, &fake) == 2 && number == attribute) {
            *value = fake;
            return 1;
        }
    }
    return 0;
}

static int has_copies(void) {
    int can = 1;
    return faked(UNIFIED_POINTER, &can) && !can;
}

static int get_attribute(int *value, int attribute, int device) {
    return faked(attribute, value) ? 0 : attribute_of(value, attribute, device);
}

static int register_with_copy(void *memory, size_t size, unsigned flags) {
    int status = register_memory(memory, size, flags);
    if (status != 0 || !has_copies()) return status;
    pthread_mutex_lock(&copies_lock);
    int at = 0;
    while (at < MOST_COPIES && copies[at].memory != NULL) at++;
    if (at == MOST_COPIES || host_alloc(&copies[at].copy, size, 3) != 0) abort();
    if ((copies[at].known = malloc(size)) == NULL) abort();
    // Neither is what a kernel writes first.
    memset(copies[at].copy, 0x5A, size);
    memset(copies[at].known, 0x5A, size);
    copies[at].memory = memory;
    copies[at].size = size;
    pthread_mutex_unlock(&copies_lock);
    return status;
}

static int unregister_with_copy(void *memory) {
    int status = unregister_memory(memory);
    pthread_mutex_lock(&copies_lock);
    for (int at = 0; at < MOST_COPIES; at++) {
        if (status != 0 || memory == NULL || copies[at].memory != memory) continue;
        host_free(copies[at].copy);
        free(copies[at].known);
        copies[at].memory = NULL;
    }
    pthread_mutex_unlock(&copies_lock);
    return status;
}

static int device_pointer(unsigned long long *address, void *memory, unsigned flags) {
    (void)flags;
    int status = 1; // invalid value
    pthread_mutex_lock(&copies_lock);
    for (int at = 0; at < MOST_COPIES; at++) {
        if (memory == NULL || copies[at].memory != memory) continue;
        *address = (unsigned long long)copies[at].copy;
        status = 0;
    }
    pthread_mutex_unlock(&copies_lock);
    return status;
}

static int synchronize_and_copy(void *stream) {
    int status = synchronize(stream);
    pthread_mutex_lock(&copies_lock);
    for (int at = 0; at < MOST_COPIES && status == 0; at++) {
        void *memory = copies[at].memory, *copy = copies[at].copy;
        if (memory == NULL || memcmp(copies[at].known, copy, copies[at].size) == 0) continue;
        memcpy(memory, copy, copies[at].size);
        memcpy(copies[at].known, copy, copies[at].size);
    }
    pthread_mutex_unlock(&copies_lock);
    return status;
}

// What replaces a function of the driver under ROBOCACHE_TEST_ATTRIBUTES. `found` is the driver's.
static void *replaced(const char *name, void *found) {
    if (getenv("ROBOCACHE_TEST_ATTRIBUTES") == NULL || found == NULL) return NULL;
    struct {
        const char *name;
        void **driver, *own;
    } functions[] = {
        {"cuDeviceGetAttribute", (void **)&attribute_of, get_attribute},
        {"cuMemHostAlloc", (void **)&host_alloc, found},
        {"cuMemFreeHost", (void **)&host_free, found},
        {"cuMemHostRegister_v2", (void **)&register_memory, register_with_copy},
        {"cuMemHostUnregister", (void **)&unregister_memory, unregister_with_copy},
        {"cuMemHostGetDevicePointer_v2", NULL, has_copies() ? device_pointer : found},
        {"cuStreamSynchronize", (void **)&synchronize, synchronize_and_copy},
    };
    for (size_t at = 0; at < sizeof functions / sizeof *functions; at++) {
        if (strcmp(name, functions[at].name) != 0) continue;
        if (functions[at].driver != NULL) *functions[at].driver = found;
        return functions[at].own;
    }
    return NULL;
}

void *dlsym(void *library, const char *name) {
    static void *(*real_dlsym)(void *, const char *);
    if (real_dlsym == NULL) real_dlsym = dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
    void *found = real_dlsym(library, name);
    void *own = replaced(name, found);
    if (own != NULL) return own;
#define REPLACE(NAME, NUMBER)                        \
    if (found != NULL && strcmp(name, #NAME) == 0) { \
        real[NUMBER] = (Function)found;              \
        return (void *)NAME;                         \
    }
    FUNCTIONS(REPLACE)
    return found;
}
