/* A library that ends the process by itself. */

#include "postgres.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(calls_exit);

Datum
calls_exit(PG_FUNCTION_ARGS)
{
	exit(PG_GETARG_INT32(0));
}
