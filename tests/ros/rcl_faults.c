// Makes rcl fail to give a message while the file of ROBOCACHE_TEST_FAULT exists. For LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

/// RCL_RET_ERROR
#define FAILED 1

int rcl_take_serialized_message(const void *subscription, void *message, void *info, void *allocation) {
  static int (*take)(const void *, void *, void *, void *);
  const char *file = getenv("ROBOCACHE_TEST_FAULT");
  if (file && access(file, F_OK) == 0) {
    return FAILED;
  }
  if (!take) {
    *(void **)&take = dlsym(RTLD_NEXT, "rcl_take_serialized_message");
  }
  return take(subscription, message, info, allocation);
}
