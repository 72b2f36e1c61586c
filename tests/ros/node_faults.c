// Makes the middleware or the disk of a node fail while a file exists. For LD_PRELOAD.
//
// Each fault has a variable that names its file:
//
// - ROBOCACHE_TEST_TAKE: rcl fails to give a message.
// - ROBOCACHE_TEST_SERVE: rcl fails to offer a service.
// - ROBOCACHE_TEST_TELL: the middleware does not tell of new messages.
// - ROBOCACHE_TEST_DISK: a write to a file of a recording waits.
// - ROBOCACHE_TEST_HEAR: the receivers of a new participant of Fast DDS begin late, one 0.1 s after the other, as on a
//   busy machine (`RTPSParticipantImpl::enable`). So it loses the answers to its first announcement. They come again up
//   to three seconds later. With `/` for the file and LD_PRELOAD set, that holds for all processes of a run of the tests.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// RCL_RET_ERROR
#define FAILED 1
// RCL_RET_UNSUPPORTED
#define UNSUPPORTED 3

static int is_on(const char *fault) {
    const char *file = getenv(fault);
    return file && access(file, F_OK) == 0;
}

// The function that this library stands in front of. RTLD_NEXT does not find those of a library that came by dlopen: the
// middleware, and rcl in Python. Its caller does.
static void *next(const char *name, void *caller) {
    void *found = dlsym(RTLD_NEXT, name), *library = NULL;
    Dl_info of_caller;
    if (!found && dladdr(caller, &of_caller)) library = dlopen(of_caller.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "node_faults: no %s\n", name);
        abort();
    }
    return found;
}

#define NEXT(name) next(name, __builtin_return_address(0))

int rcl_take_serialized_message(const void *subscription, void *message, void *info, void *allocation) {
    static int (*take)(const void *, void *, void *, void *);
    if (is_on("ROBOCACHE_TEST_TAKE")) return FAILED;
    if (!take) *(void **)&take = NEXT("rcl_take_serialized_message");
    return take(subscription, message, info, allocation);
}

int rcl_service_init(void *service, const void *node, const void *type, const char *name, const void *options) {
    static int (*init)(void *, const void *, const void *, const char *, const void *);
    if (is_on("ROBOCACHE_TEST_SERVE")) return FAILED;
    if (!init) *(void **)&init = NEXT("rcl_service_init");
    return init(service, node, type, name, options);
}

int rcl_subscription_set_on_new_message_callback(const void *subscription, const void *callback, const void *data) {
    static int (*set)(const void *, const void *, const void *);
    if (is_on("ROBOCACHE_TEST_TELL")) return UNSUPPORTED;
    if (!set) *(void **)&set = NEXT("rcl_subscription_set_on_new_message_callback");
    return set(subscription, callback, data);
}

static int is_recording(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 5 && memcmp(path + length - 5, ".mcap", 5) == 0;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*really)(int, const void *, size_t);
    while (is_on("ROBOCACHE_TEST_DISK") && is_recording(fd)) usleep(5000);
    if (!really) *(void **)&really = NEXT("write");
    return really(fd, bytes, count);
}

#define REGISTER _ZN8eprosima8fastrtps4rtps16ReceiverResource16RegisterReceiverEPNS1_15MessageReceiverE
#define QUOTED(name) #name
#define STRING(name) QUOTED(name)

// `ReceiverResource::RegisterReceiver(MessageReceiver *)` of Fast DDS 2. A participant has about four resources.
void REGISTER(void *resource, void *receiver) {
    static void (*really)(void *, void *);
    if (is_on("ROBOCACHE_TEST_HEAR")) {
        fputs("node_faults: a receiver begins late\n", stderr);
        usleep(100000);
    }
    if (!really) *(void **)&really = NEXT(STRING(REGISTER));
    really(resource, receiver);
}
