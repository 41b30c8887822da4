/* A file system that does not record when a file was created. */

#include <dlfcn.h>
#include <sys/stat.h>

int statx(int directory, const char *restrict path, int flags, unsigned int mask, struct statx *restrict found)
{
	int (*next)(int, const char *, int, unsigned int, struct statx *) = dlsym(RTLD_NEXT, "statx");
	int result = next(directory, path, flags, mask, found);

	if (result == 0)
		found->stx_mask &= ~STATX_BTIME;
	return result;
}
