// Faults of a node's middleware, clocks and disk, which a test commands by files. For LD_PRELOAD.
//
// Each fault has a variable that names its file. Some read a number in it: `faults.py` writes it at once as a whole. A
// fault without its file does nothing.
//
// - ROBOCACHE_TEST_TAKE: rcl fails to give a message.
// - ROBOCACHE_TEST_HOLD: a take of a message waits while the file exists. If the file has the name of a topic, only the
//   takes of that topic wait. While one waits, there is also a file with `.held` at the end of its name: it says how many
//   messages the subscription has given so far. Those that come meanwhile stay in the middleware's queue.
// - ROBOCACHE_TEST_CUT: a subscription gives nothing and tells of nothing after the file was touched. A later one does.
// - ROBOCACHE_TEST_LOSE: of every n messages of a subscription the last is lost on the way: it is not given, its number
//   passes, and the event of lost messages counts it.
// - ROBOCACHE_TEST_SLOW: a publication of bytes, such as a tensor, takes that much longer [ms].
// - ROBOCACHE_TEST_SERVE: rcl fails to offer a service.
// - ROBOCACHE_TEST_TELL: the middleware does not tell of new messages.
// - ROBOCACHE_TEST_BOOT: the time since the boot is one second and that of the file [s]. It stands otherwise. So the node
//   has stood still when the test says so, and never because of the machine.
// - ROBOCACHE_TEST_REAL: the system's clock is ahead by that of the file [ns]. With `=` before the number, it stands there.
// - ROBOCACHE_TEST_DISK: a write to a file of a recording waits.
// - ROBOCACHE_TEST_FULL: a file of a recording has room for that many bytes.
// - ROBOCACHE_TEST_HEAR: the receivers of a new participant of Fast DDS begin late, one 0.1 s after the other, as on a
//   busy machine (`RTPSParticipantImpl::enable`). So it loses the answers to its first announcement. They come again up
//   to three seconds later. With `/` for the file and LD_PRELOAD set, that holds for all processes of a run of the tests.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// RCL_RET_ERROR
#define FAILED 1
// RCL_RET_UNSUPPORTED
#define UNSUPPORTED 3
// RCL_RET_SUBSCRIPTION_TAKE_FAILED
#define NOTHING 401
// RCL_SUBSCRIPTION_MESSAGE_LOST
#define MESSAGE_LOST 3

// Names of files. They are read once: an environment may change while another thread reads it.
static const char *take_file, *hold_file, *cut_file, *lose_file, *slow_file, *serve_file, *tell_file, *boot_file,
    *real_file, *disk_file, *full_file, *hear_file;

__attribute__((constructor)) static void begin(void) {
    take_file = getenv("ROBOCACHE_TEST_TAKE");
    hold_file = getenv("ROBOCACHE_TEST_HOLD");
    cut_file = getenv("ROBOCACHE_TEST_CUT");
    lose_file = getenv("ROBOCACHE_TEST_LOSE");
    slow_file = getenv("ROBOCACHE_TEST_SLOW");
    serve_file = getenv("ROBOCACHE_TEST_SERVE");
    tell_file = getenv("ROBOCACHE_TEST_TELL");
    boot_file = getenv("ROBOCACHE_TEST_BOOT");
    real_file = getenv("ROBOCACHE_TEST_REAL");
    disk_file = getenv("ROBOCACHE_TEST_DISK");
    full_file = getenv("ROBOCACHE_TEST_FULL");
    hear_file = getenv("ROBOCACHE_TEST_HEAR");
}

static int is_on(const char *file) { return file && access(file, F_OK) == 0; }

// The text in the file of a fault; empty without one.
static const char *text_of(const char *file, char *text, size_t size) {
    ssize_t length = 0;
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        length = read(fd, text, size - 1);
        close(fd);
    }
    text[length > 0 ? length : 0] = 0;
    return text;
}

// The number in the file of a fault; 0 without one.
static long long number_of(const char *file) {
    char text[64];
    return atoll(text_of(file, text, sizeof text));
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

// What is known of a subscription. It is kept for ever: the middleware may call back at its end.
struct subscription {
    const void *handle, *lost_event;
    // When the file of the fault CUT was touched before; zero if it was not.
    struct timespec touched;
    void (*callback)(const void *, size_t);
    const void *data;
    unsigned long long given, taken, lost;
    struct subscription *before;
};

static struct subscription *subscriptions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// The newest one of this handle or event.
static struct subscription *known(const void *handle, const void *lost_event) {
    pthread_mutex_lock(&lock);
    struct subscription *it = subscriptions;
    while (it && !(handle && it->handle == handle) && !(lost_event && it->lost_event == lost_event)) it = it->before;
    pthread_mutex_unlock(&lock);
    return it;
}

static struct timespec touched(void) {
    struct stat found = {0};
    if (cut_file) stat(cut_file, &found);
    return found.st_mtim;
}

static int is_cut(const struct subscription *it) {
    struct timespec now = touched();
    return it && (now.tv_sec != it->touched.tv_sec || now.tv_nsec != it->touched.tv_nsec);
}

int rcl_subscription_init(void *subscription, const void *node, const void *type, const char *topic, const void *options) {
    static int (*init)(void *, const void *, const void *, const char *, const void *);
    if (!init) *(void **)&init = NEXT("rcl_subscription_init");
    int done = init(subscription, node, type, topic, options);
    struct subscription *it = calloc(1, sizeof *it);
    it->handle = subscription;
    it->touched = touched();
    pthread_mutex_lock(&lock);
    it->before = subscriptions;
    subscriptions = it;
    pthread_mutex_unlock(&lock);
    return done;
}

int rcl_subscription_event_init(void *event, const void *subscription, int kind) {
    static int (*init)(void *, const void *, int);
    if (!init) *(void **)&init = NEXT("rcl_subscription_event_init");
    struct subscription *it = known(subscription, NULL);
    if (it && kind == MESSAGE_LOST) it->lost_event = event;
    return init(event, subscription, kind);
}

int rcl_take_event(const void *event, void *status) {
    static int (*take)(const void *, void *);
    if (!take) *(void **)&take = NEXT("rcl_take_event");
    int done = take(event, status);
    // Two totals: of all, and of those since the last call.
    struct subscription *it = lose_file ? known(NULL, event) : NULL;
    if (it && done == 0) *(size_t *)status += __atomic_load_n(&it->lost, __ATOMIC_SEQ_CST);
    return done;
}

static void wait_while_held(const void *subscription, unsigned long long given, void *caller) {
    static const char *(*topic_of)(const void *);
    char topic[256], held[4096], fresh[4096];
    if (!is_on(hold_file)) return;
    if (!topic_of) *(void **)&topic_of = next("rcl_subscription_get_topic_name", caller);
    snprintf(held, sizeof held, "%s.held", hold_file);
    snprintf(fresh, sizeof fresh, "%s.fresh", hold_file);
    int waits = 0;
    while (is_on(hold_file)) {
        text_of(hold_file, topic, sizeof topic);
        if (*topic && strcmp(topic, topic_of(subscription)) != 0) break;
        if (!waits) {
            // At once as a whole.
            FILE *file = fopen(fresh, "we");
            if (!file || fprintf(file, "%llu", given) < 0 || fclose(file) || rename(fresh, held)) abort();
        }
        waits = 1;
        usleep(1000);
    }
    if (waits) unlink(held);
}

int rcl_take_serialized_message(const void *subscription, void *message, void *info, void *allocation) {
    static int (*take)(const void *, void *, void *, void *);
    if (!take) *(void **)&take = NEXT("rcl_take_serialized_message");
    if (is_on(take_file)) return FAILED;
    struct subscription *it = cut_file || lose_file || hold_file ? known(subscription, NULL) : NULL;
    if (it) wait_while_held(subscription, it->given, __builtin_return_address(0));
    if (cut_file && is_cut(it)) return NOTHING;
    int done = take(subscription, message, info, allocation);
    long long every = it && lose_file ? number_of(lose_file) : 0;
    while (done == 0 && every > 0 && ++it->taken % every == 0) {
        __atomic_fetch_add(&it->lost, 1, __ATOMIC_SEQ_CST);
        done = take(subscription, message, info, allocation);
    }
    if (it && done == 0) it->given++;
    return done;
}

// Tells of new messages unless the subscription is cut off.
static void tell(const void *data, size_t count) {
    const struct subscription *it = data;
    if (!is_cut(it)) it->callback(it->data, count);
}

int rcl_subscription_set_on_new_message_callback(const void *subscription, const void *callback, const void *data) {
    static int (*set)(const void *, const void *, const void *);
    if (is_on(tell_file)) return UNSUPPORTED;
    if (!set) *(void **)&set = NEXT("rcl_subscription_set_on_new_message_callback");
    struct subscription *it = cut_file && callback ? known(subscription, NULL) : NULL;
    if (!it) return set(subscription, callback, data);
    *(const void **)&it->callback = callback;
    it->data = data;
    return set(subscription, (const void *)tell, it);
}

int rcl_publish_serialized_message(const void *publisher, const void *message, void *allocation) {
    static int (*publish)(const void *, const void *, void *);
    if (!publish) *(void **)&publish = NEXT("rcl_publish_serialized_message");
    long long ms = slow_file ? number_of(slow_file) : 0;
    if (ms > 0) usleep(1000 * ms);
    return publish(publisher, message, allocation);
}

int rcl_service_init(void *service, const void *node, const void *type, const char *name, const void *options) {
    static int (*init)(void *, const void *, const void *, const char *, const void *);
    if (is_on(serve_file)) return FAILED;
    if (!init) *(void **)&init = NEXT("rcl_service_init");
    return init(service, node, type, name, options);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*really)(clockid_t, struct timespec *);
    if (!really) *(void **)&really = NEXT("clock_gettime");
    if (clock == CLOCK_BOOTTIME && boot_file) {
        *time = (struct timespec){.tv_sec = 1 + number_of(boot_file)};
        return 0;
    }
    int done = really(clock, time);
    if (clock == CLOCK_REALTIME && real_file && done == 0) {
        char text[64];
        int stands = *text_of(real_file, text, sizeof text) == '=';
        long long ns = stands ? atoll(text + 1) : time->tv_sec * 1000000000LL + time->tv_nsec + atoll(text);
        *time = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    }
    return done;
}

static int is_recording(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    return length > 5 && memcmp(path + length - 5, ".mcap", 5) == 0;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*really)(int, const void *, size_t);
    if (!really) *(void **)&really = NEXT("write");
    while (is_on(disk_file) && is_recording(fd)) usleep(5000);
    struct stat file;
    if (is_on(full_file) && is_recording(fd) && fstat(fd, &file) == 0) {
        long long room = number_of(full_file) - file.st_size;
        if (room <= 0) {
            errno = ENOSPC;
            return -1;
        }
        if (count > (size_t)room) count = (size_t)room;
    }
    return really(fd, bytes, count);
}

#define REGISTER _ZN8eprosima8fastrtps4rtps16ReceiverResource16RegisterReceiverEPNS1_15MessageReceiverE
#define QUOTED(name) #name
#define STRING(name) QUOTED(name)

// `ReceiverResource::RegisterReceiver(MessageReceiver *)` of Fast DDS 2. A participant has about four resources.
void REGISTER(void *resource, void *receiver) {
    static void (*really)(void *, void *);
    if (is_on(hear_file)) {
        fputs("node_faults: a receiver begins late\n", stderr);
        usleep(100000);
    }
    if (!really) *(void **)&really = NEXT(STRING(REGISTER));
    really(resource, receiver);
}
