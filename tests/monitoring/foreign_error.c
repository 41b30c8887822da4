/* An error of another library whose source file happens to have the name of one of ours. */

#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(raise_error);

#line 1 FILE_NAME
Datum raise_error(PG_FUNCTION_ARGS)
{
    ereport(ERROR, (errmsg("an error of another library")));
}
