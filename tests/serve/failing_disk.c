/* A disk that fails: preloaded into a process, this fails the n-th open, read, write, sync or
   truncation of files in one folder. A write that fails has written half of its bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static long failing_from, failing_until;
static int failing_code;
static atomic_long passed;

/* Fail operations from the first to the last, counted from 1; an empty name ends it. */
void disk_fails(const char *name, long first, long last, int code) {
    folder[0] = 0;
    passed = 0;
    failing_from = first;
    failing_until = last;
    failing_code = code;
    strncpy(folder, name, sizeof folder - 1);
}

/* Return how many operations there were. */
long disk_passed(void) { return passed; }

static int fails(const char *path) {
    if (!folder[0] || !path || strncmp(path, folder, strlen(folder)) != 0)
        return 0;
    long now = atomic_fetch_add(&passed, 1) + 1;
    if (now < failing_from || now > failing_until)
        return 0;
    errno = failing_code;
    return 1;
}

static int fails_on(int fd) {
    char link[64], path[PATH_MAX];
    int saved = errno;
    if (!folder[0])
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (size < 0)
        return 0;
    path[size] = 0;
    return fails(path);
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

#define OPENING(name)                                                                              \
    int name(const char *path, int flags, ...) {                                                   \
        mode_t mode = 0;                                                                           \
        if (flags & (O_CREAT | O_TMPFILE)) {                                                       \
            va_list rest;                                                                          \
            va_start(rest, flags);                                                                 \
            mode = va_arg(rest, mode_t);                                                           \
            va_end(rest);                                                                          \
        }                                                                                          \
        return fails(path) ? -1 : REAL(name)(path, flags, mode);                                   \
    }
OPENING(open)
OPENING(open64)

#define READING(name, offset_type)                                                                 \
    ssize_t name(int fd, void *data, size_t size, offset_type at) {                                \
        return fails_on(fd) ? -1 : REAL(name)(fd, data, size, at);                                 \
    }
READING(pread, off_t)
READING(pread64, off64_t)

#define WRITING(name, offset_type)                                                                 \
    ssize_t name(int fd, const void *data, size_t size, offset_type at) {                          \
        if (!fails_on(fd))                                                                         \
            return REAL(name)(fd, data, size, at);                                                 \
        int code = errno;                                                                          \
        REAL(name)(fd, data, size / 2, at);                                                        \
        errno = code;                                                                              \
        return -1;                                                                                 \
    }
WRITING(pwrite, off_t)
WRITING(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t size) {
    return fails_on(fd) ? -1 : REAL(write)(fd, data, size);
}

#define ON_DESCRIPTOR(name)                                                                        \
    int name(int fd) { return fails_on(fd) ? -1 : REAL(name)(fd); }
ON_DESCRIPTOR(fsync)
ON_DESCRIPTOR(fdatasync)

#define TRUNCATING(name, offset_type)                                                              \
    int name(int fd, offset_type size) { return fails_on(fd) ? -1 : REAL(name)(fd, size); }
TRUNCATING(ftruncate, off_t)
TRUNCATING(ftruncate64, off64_t)
