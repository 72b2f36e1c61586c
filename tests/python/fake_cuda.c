// A CUDA driver with one GPU that computes nothing, for tests of what is asked of a driver. It is compiled as
// libcuda.so.1.
//
// FAKE_CUDA_ATTRIBUTES=NUMBER=VALUE,...: attributes of the device, by the numbers of CUdevice_attribute; all others are
// those of a Jetson Orin, as far as they matter here. FAKE_CUDA_CALLS names a file: each call for memory adds its name.
// An upload from registered memory adds `upload`. It is under way until a thread waits for an event or finds a stream
// done. If its bytes change meanwhile, or their memory is unregistered, that adds `changed` or `lost`.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note(const char *name) {
    const char *path = getenv("FAKE_CUDA_CALLS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file == NULL) return;
    fprintf(file, "%s\n", name);
    fclose(file);
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    // Multiprocessors, compute capability, shared memory, integrated, addressing, registered memory.
    static const int known[][2] = {{16, 8},  {75, 8},      {76, 7},     {81, 167936}, {97, 166912},
                                   {18, 1},  {41, 1},      {99, 1},     {91, 0},      {111, 1024},
                                   {38, 4194304}};
    *value = 0;
    for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
        if (known[at][0] == attribute) *value = known[at][1];
    }
    const char *text = getenv("FAKE_CUDA_ATTRIBUTES");
    for (; text != NULL && *text != 0; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
        int number, fake;
        if (sscanf(text, "%d=%d", &number, &fake) == 2 && number == attribute) *value = fake;
    }
    return 0;
}

int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    return snprintf(name, (size_t)size, "Fake"), 0;
}
int cuGetErrorName(int status, const char **name) { return (void)status, *name = "CUDA_ERROR_FAKE", 0; }
int cuGetErrorString(int status, const char **text) { return (void)status, *text = "a fake", 0; }
int cuMemGetInfo_v2(size_t *free, size_t *all) { return *free = *all = (size_t)1 << 33, 0; }

// Memory of the GPU, which an integrated one shares with the host.
static void *reserve(size_t size) { return aligned_alloc(4096, (size + 4095) / 4096 * 4096); }
int cuMemAlloc_v2(unsigned long long *address, size_t size) {
    return note("cuMemAlloc"), *address = (unsigned long long)reserve(size), 0;
}
int cuMemFree_v2(unsigned long long address) { return free((void *)address), 0; }
int cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
    return (void)flags, note("cuMemHostAlloc"), *memory = reserve(size), 0;
}
int cuMemFreeHost(void *memory) { return free(memory), 0; }

// Registered memory, and the uploads from it that are under way.
enum { MOST = 256 };
static struct {
    char *memory;
    size_t size;
} registered[MOST];
static struct {
    const char *source;
    size_t size;
    unsigned long long sum;
} uploads[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// A sum that depends on the order of the bytes.
static unsigned long long sum_of(const char *bytes, size_t size) {
    unsigned long long sum = 1469598103934665603u;
    for (size_t at = 0; at < size; at++) sum = (sum ^ (unsigned char)bytes[at]) * 1099511628211u;
    return sum;
}

static int is_inside(const char *bytes, size_t size, int at) {
    char *memory = registered[at].memory;
    return memory != NULL && bytes >= memory && bytes + size <= memory + registered[at].size;
}

// Ends all uploads, or those from one piece of registered memory.
static void end_uploads(int piece) {
    for (int at = 0; at < MOST; at++) {
        const char *source = uploads[at].source;
        if (source == NULL || (piece >= 0 && !is_inside(source, uploads[at].size, piece))) continue;
        if (piece >= 0) note("lost");
        if (sum_of(source, uploads[at].size) != uploads[at].sum) note("changed");
        uploads[at].source = NULL;
    }
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags) {
    (void)flags, note("cuMemHostRegister");
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < MOST && registered[at].memory != NULL) at++;
    if (at == MOST) abort();
    registered[at].memory = memory;
    registered[at].size = size;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuMemHostUnregister(void *memory) {
    note("cuMemHostUnregister");
    pthread_mutex_lock(&lock);
    for (int at = 0; at < MOST; at++) {
        if (registered[at].memory != memory) continue;
        end_uploads(at);
        registered[at].memory = NULL;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *source, size_t size, void *stream) {
    (void)to, (void)stream;
    pthread_mutex_lock(&lock);
    int piece = 0, at = 0;
    while (piece < MOST && !is_inside(source, size, piece)) piece++;
    while (at < MOST && uploads[at].source != NULL) at++;
    if (piece < MOST && at < MOST) {
        note("upload");
        uploads[at].source = source;
        uploads[at].size = size;
        uploads[at].sum = sum_of(source, size);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int wait_for_uploads(void) {
    pthread_mutex_lock(&lock);
    end_uploads(-1);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventSynchronize(void *event) { return (void)event, wait_for_uploads(); }
int cuStreamQuery(void *stream) { return (void)stream, wait_for_uploads(); }
int cuCtxSynchronize(void) { return wait_for_uploads(); }

int cuMemHostGetDevicePointer_v2(unsigned long long *address, void *memory, unsigned flags) {
    return (void)flags, note("cuMemHostGetDevicePointer"), *address = (unsigned long long)memory + 1, 0;
}

// All others do nothing, and a handle is this number.
#define HANDLE(NAME) \
    int NAME(void **handle) { return *handle = (void *)64, 0; }
#define NOTHING(NAME) \
    int NAME(void) { return 0; }
HANDLE(cuCtxGetCurrent)
HANDLE(cuDevicePrimaryCtxRetain)
HANDLE(cuEventCreate)
HANDLE(cuModuleGetFunction)
HANDLE(cuModuleLoadData)
HANDLE(cuStreamCreate)
HANDLE(cuStreamCreateWithPriority)
NOTHING(cuCtxGetStreamPriorityRange)
NOTHING(cuCtxSetCurrent)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventQuery)
NOTHING(cuEventRecord)
NOTHING(cuFuncSetAttribute)
NOTHING(cuInit)
NOTHING(cuLaunchKernelEx)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemsetD8Async)
NOTHING(cuModuleUnload)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamWaitEvent)
NOTHING(cuThreadExchangeStreamCaptureMode)
