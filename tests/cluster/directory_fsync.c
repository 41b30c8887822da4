/*
 * What a power cut could find, when preloaded into a server: each flush of the data directory, or of id_gen/ in it, adds a
 * line to the file "flushed" there; while a file "fsync_errno" lies there, it fails with that error instead, or of id_gen/
 * alone where that is named after the number. Every process of a server works in its data directory.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*libc_fsync)(int);

__attribute__((constructor)) static void find(void)
{
    libc_fsync = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");
}

static int is(int fd, const char *path)
{
    struct stat one, other;

    return fstat(fd, &one) == 0 && stat(path, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int fsync(int fd)
{
    const char *directory = is(fd, ".") ? "." : is(fd, "id_gen") ? "id_gen" : NULL;
    FILE *file;
    char only[16] = "";
    int fault = 0;

    if (directory == NULL)
        return libc_fsync(fd);
    if ((file = fopen("fsync_errno", "r")) != NULL) {
        if (fscanf(file, "%d %15s", &fault, only) < 1 || (*only && strcmp(only, directory) != 0))
            fault = 0;
        fclose(file);
    }
    if (fault != 0) {
        errno = fault;
        return -1;
    }
    if ((file = fopen("flushed", "a")) != NULL) {
        fprintf(file, "%s\n", directory);
        fclose(file);
    }
    return libc_fsync(fd);
}
