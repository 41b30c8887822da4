/*
 * A wall clock that a test sets while a server looks at it.
 *
 * It is read from a mapped file, so that a signal handler may look at it, as PostgreSQL's of timeouts does: libfaketime
 * (0.9.10) opens its file then, and corrupts the heap that it interrupts.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define SECOND_US INT64_C(1000000)
#define SETTINGS 64

/* At `real_us` it showed `shows_us`, and goes on at this rate. */
struct setting {
	int64_t real_us, shows_us;
	double rate;
};

/* A new setting is written beside the last ones, then made the latest: nobody reads half of one. */
struct clock {
	volatile int64_t latest;
	struct setting settings[SETTINGS];
};

static const struct clock *set;
static int (*real_time)(clockid_t, struct timespec *);

__attribute__((constructor)) static void find(void)
{
	int file = open(getenv("ID_GEN_CLOCK"), O_RDONLY | O_CLOEXEC);
	void *mapped = mmap(NULL, sizeof(struct clock), PROT_READ, MAP_SHARED, file, 0);

	close(file);
	real_time = dlsym(RTLD_NEXT, "clock_gettime");
	if (mapped == MAP_FAILED)
		abort();
	set = mapped;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
	const struct setting *setting;
	int64_t since_ns;

	if (real_time == NULL)
		find();
	if (real_time(which, now) != 0)
		return -1;
	if (which != CLOCK_REALTIME && which != CLOCK_REALTIME_COARSE)
		return 0;
	setting = &set->settings[set->latest % SETTINGS];
	since_ns = now->tv_sec * SECOND_NS + now->tv_nsec - setting->real_us * 1000;
	if (setting->rate != 1)
		since_ns *= setting->rate;
	since_ns += setting->shows_us % SECOND_US * 1000;
	now->tv_sec = setting->shows_us / SECOND_US + since_ns / SECOND_NS;
	now->tv_nsec = since_ns % SECOND_NS;
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec found;

	(void) zone;
	clock_gettime(CLOCK_REALTIME, &found);
	now->tv_sec = found.tv_sec;
	now->tv_usec = found.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now)
{
	struct timespec found;

	clock_gettime(CLOCK_REALTIME, &found);
	if (now != NULL)
		*now = found.tv_sec;
	return found.tv_sec;
}
