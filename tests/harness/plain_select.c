/*
 * Keeps select() out of libfaketime's hands, when preloaded before it.
 *
 * While libfaketime passes a call on, it fakes nothing. Up to version 15 a postmaster starts processes from signal
 * handlers, which run while it waits in select(): it would give them, for all their life, the real clock.
 */

#include <dlfcn.h>
#include <sys/select.h>

typedef int (*function)(int, fd_set *, fd_set *, fd_set *, struct timeval *);

static function libc_select;

__attribute__((constructor)) static void find(void)
{
    libc_select = (function) dlsym(dlopen("libc.so.6", RTLD_LAZY), "select");
}

int select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional, struct timeval *timeout)
{
    return libc_select(count, readable, writable, exceptional, timeout);
}
