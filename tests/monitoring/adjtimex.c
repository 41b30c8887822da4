/* Answers for the kernel whether a time service keeps its clock right: not, while the file that ADJTIMEX_UNSYNC names
 * exists. */

#include <stdlib.h>
#include <sys/timex.h>
#include <unistd.h>

int adjtimex(struct timex *state)
{
	const char *file = getenv("ADJTIMEX_UNSYNC");
	int unsynchronized = file && access(file, F_OK) == 0;

	state->status = unsynchronized ? STA_UNSYNC : STA_PLL;
	return unsynchronized ? TIME_ERROR : TIME_OK;
}
