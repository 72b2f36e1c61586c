// A CUDA driver with one GPU that computes nothing, for tests of what is asked of a driver. It is compiled as
// libcuda.so.1.
//
// FAKE_CUDA_ATTRIBUTES=NUMBER=VALUE,...: attributes of the device, by the numbers of CUdevice_attribute; all others are
// those of a Jetson Orin, as far as they matter here. FAKE_CUDA_CALLS names a file: each call for memory adds its name.
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
int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags) {
    return (void)memory, (void)size, (void)flags, note("cuMemHostRegister"), 0;
}
int cuMemHostUnregister(void *memory) { return (void)memory, note("cuMemHostUnregister"), 0; }
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
NOTHING(cuCtxSynchronize)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventQuery)
NOTHING(cuEventRecord)
NOTHING(cuEventSynchronize)
NOTHING(cuFuncSetAttribute)
NOTHING(cuInit)
NOTHING(cuLaunchKernelEx)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemcpyHtoDAsync_v2)
NOTHING(cuMemsetD8Async)
NOTHING(cuModuleUnload)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuStreamQuery)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamWaitEvent)
NOTHING(cuThreadExchangeStreamCaptureMode)
