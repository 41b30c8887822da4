/*
 * A background worker of another extension, as PostgreSQL's documentation lets one be written: it runs a statement, and
 * SIGTERM ends the process where it stands. Up to PostgreSQL 18 that is what a worker's default handler does; later ones
 * wait until the process looks, but a worker may bring a handler like the old one.
 */

#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(foreign_worker_start);
PGDLLEXPORT void foreign_worker_main(Datum argument);
PGDLLEXPORT void foreign_worker_slow_to_end(Datum argument);

#if PG_VERSION_NUM >= 190000
static void end_where_it_stands(SIGNAL_ARGS)
{
    sigprocmask(SIG_SETMASK, &BlockSig, NULL);
    ereport(FATAL, errcode(ERRCODE_ADMIN_SHUTDOWN), errmsg("terminating the foreign worker"));
}
#endif

/* It is called after those that were registered later, and before PostgreSQL rolls back the transaction. */
static void take_a_second(int code, Datum argument)
{
    pg_usleep(1000000L);
}

static void run(bool slow_to_end)
{
#if PG_VERSION_NUM >= 190000
    pqsignal(SIGTERM, end_where_it_stands);
#endif
    BackgroundWorkerUnblockSignals();
    BackgroundWorkerInitializeConnection("postgres", NULL, 0);
    if (slow_to_end)
        before_shmem_exit(take_a_second, 0);
    StartTransactionCommand();
    SPI_connect();
    PushActiveSnapshot(GetTransactionSnapshot());
    SPI_execute(MyBgworkerEntry->bgw_extra, false, 0);
    SPI_finish();
    PopActiveSnapshot();
    CommitTransactionCommand();
}

void foreign_worker_main(Datum argument)
{
    run(false);
}

void foreign_worker_slow_to_end(Datum argument)
{
    run(true);
}

/* foreign_worker_start(library text, statement text [, main function text]) → its process */
Datum foreign_worker_start(PG_FUNCTION_ARGS)
{
    BackgroundWorker worker;
    BackgroundWorkerHandle *handle;
    pid_t pid;

    memset(&worker, 0, sizeof worker);
    worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
    worker.bgw_restart_time = BGW_NEVER_RESTART;
    worker.bgw_notify_pid = MyProcPid;
    strlcpy(worker.bgw_name, "foreign worker", BGW_MAXLEN);
    strlcpy(worker.bgw_type, "foreign worker", BGW_MAXLEN);
    strlcpy(worker.bgw_extra, text_to_cstring(PG_GETARG_TEXT_PP(1)), BGW_EXTRALEN);
    strlcpy(worker.bgw_library_name, text_to_cstring(PG_GETARG_TEXT_PP(0)), sizeof worker.bgw_library_name);
    strlcpy(worker.bgw_function_name, PG_NARGS() > 2 ? text_to_cstring(PG_GETARG_TEXT_PP(2)) : "foreign_worker_main",
            BGW_MAXLEN);
    if (!RegisterDynamicBackgroundWorker(&worker, &handle))
        elog(ERROR, "no place for another worker");
    /* One that has ended by now has started, too. */
    switch (WaitForBackgroundWorkerStartup(handle, &pid))
    {
        case BGWH_STARTED:
            PG_RETURN_INT32(pid);
        case BGWH_STOPPED:
            PG_RETURN_INT32(0);
        default:
            elog(ERROR, "the worker did not start");
    }
}
