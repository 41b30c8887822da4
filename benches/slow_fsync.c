/*
 * A slow disk for the files under id_gen/ in a server's data directory, when preloaded: flushing one of them takes
 * SLOW_FSYNC_MS longer. Every process of a server works in its data directory.
 */

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int (*libc_fsync)(int);
static long slow_ms;

__attribute__((constructor)) static void find(void)
{
    const char *ms = getenv("SLOW_FSYNC_MS");

    libc_fsync = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
    slow_ms = ms ? atol(ms) : 0;
}

static int is_slow(int fd)
{
    char link[32], path[PATH_MAX], directory[PATH_MAX];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0 || getcwd(directory, sizeof directory - sizeof "/id_gen") == NULL)
        return 0;
    path[length] = '\0';
    strcat(directory, "/id_gen");
    return strncmp(path, directory, strlen(directory)) == 0;
}

int fsync(int fd)
{
    if (slow_ms > 0 && is_slow(fd)) {
        struct timespec wait = {slow_ms / 1000, slow_ms % 1000 * 1000000};

        nanosleep(&wait, NULL);
    }
    return libc_fsync(fd);
}
