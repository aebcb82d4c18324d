/* UCX's ucp_worker_progress, which gives the processor away when there was nothing to do.

   A thread of Legate's network layer calls it in a loop, and never sleeps.  Where as many ranks as processors share
   a machine, that loop keeps the thread that has work waiting until the scheduler takes its processor away, several
   milliseconds for each message.  Loaded with RTLD_GLOBAL before Legate, this library comes first when the dynamic
   linker looks the function up; UCX itself is told to it, so that it never has to be searched for.

   A thread that is about to compute for long waits, by the two counters, until messages have come and gone
   (trampoline.cc).  */

#include <sched.h>

#define EXPORT __attribute__((visibility("default")))

enum { PATIENCE = 20 };  /* polls that find nothing before the thread yields; a busy connection never gets there */

typedef unsigned progress_function(void *worker);

static progress_function *progress;

EXPORT unsigned long diffuse_yields;  /* times that the thread gave its processor away */
EXPORT unsigned long diffuse_events;  /* polls that found something */

EXPORT void diffuse_yield_around(progress_function *theirs) { progress = theirs; }

EXPORT unsigned ucp_worker_progress(void *worker)
{
    static __thread int empty;
    unsigned events = progress(worker);
    if (events) {
        empty = 0;
        diffuse_events++;
    } else if (++empty >= PATIENCE) {
        empty = PATIENCE;
        diffuse_yields++;
        sched_yield();
    }
    return events;
}
