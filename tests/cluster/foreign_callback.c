/*
 * A library that runs a statement when its session's transaction is about to be prepared, as one may that writes down what
 * a transaction did; or that takes its time when its process ends, before PostgreSQL rolls back the transaction. Callbacks
 * of libraries that registered theirs later are called before it.
 */

#include "postgres.h"

#include <unistd.h>

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(foreign_callback_at_prepare);
PG_FUNCTION_INFO_V1(foreign_callback_at_end);

static char *statement;

static void at_prepare(XactEvent event, void *argument)
{
    if (event != XACT_EVENT_PRE_PREPARE)
        return;
    SPI_connect();
    PushActiveSnapshot(GetTransactionSnapshot());
    SPI_execute(statement, false, 0);
    PopActiveSnapshot();
    SPI_finish();
}

/* foreign_callback_at_prepare(statement text), once in a session */
Datum foreign_callback_at_prepare(PG_FUNCTION_ARGS)
{
    statement = MemoryContextStrdup(TopMemoryContext, text_to_cstring(PG_GETARG_TEXT_PP(0)));
    RegisterXactCallback(at_prepare, NULL);
    PG_RETURN_VOID();
}

static void wait_while_it_exists(int code, Datum path)
{
    while (access(DatumGetCString(path), F_OK) == 0)
        pg_usleep(1000L);
}

/* foreign_callback_at_end(path text): from then on the process ends only when that file is gone */
Datum foreign_callback_at_end(PG_FUNCTION_ARGS)
{
    char *path = MemoryContextStrdup(TopMemoryContext, text_to_cstring(PG_GETARG_TEXT_PP(0)));

    before_shmem_exit(wait_while_it_exists, CStringGetDatum(path));
    PG_RETURN_VOID();
}
