/* An extension with a libpq of its own, some functions of which other libraries can see. */

#include "postgres.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PGDLLEXPORT int PQisthreadsafe(void);
PGDLLEXPORT char *PQhost(const void *connection);

int
PQisthreadsafe(void)
{
	return 0;
}

char *
PQhost(const void *connection)
{
	return "another-library";
}
