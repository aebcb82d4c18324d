/* UCX's ucp_worker_progress, which gives the processor away when there was nothing to do.

   A thread of Legate's network layer calls it in a loop, and never sleeps.  Where as many ranks as processors share
   a machine, that loop keeps the thread that has work waiting until the scheduler takes its processor away, several
   milliseconds for each message.  Loaded with RTLD_GLOBAL before Legate, this library comes first when the dynamic
   linker looks the function up; UCX itself is told to it, so that it never has to be searched for.

   The thread yields as long as it soon gets the processor back.  Beside other programs that compute it does so only
   when each of them has used up its time slice, so that every message takes some ten milliseconds.  After a yield that
   took as long, the thread sleeps between polls for a while: the scheduler prefers a thread that slept to those that
   compute.  A yield to a rank that computes rarely takes so long, and a sleep would then only delay messages.

   A thread that is about to compute for long waits, by the two counters, until messages have come and gone
   (trampoline.cc).  */

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { PATIENCE = 20 };  /* polls that find nothing before the thread rests; a busy connection never gets there */
enum {                   /* nanoseconds */
    LATE = 2500000,      /* of a yield after which the thread sleeps instead */
    FIRST = 10000000,    /* for which it then does so; twice as long each time that the next yield is late, too */
    LONGEST = 100000000,
    SLEEP = 30000,       /* of one sleep */
    SOON = 5000000,      /* between the last sleep and a yield that counts as the next one */
    EXACT = 1000         /* by which a sleep may be longer; by default the system adds 50,000 */
};
enum { YIELDS = 100 };   /* that a sleep counts for: nobody has to make way for a thread that slept */

typedef unsigned progress_function(void *worker);

static progress_function *progress;

EXPORT unsigned long diffuse_yields;  /* times that the thread gave its processor away */
EXPORT unsigned long diffuse_events;  /* polls that found something */

EXPORT void diffuse_yield_around(progress_function *theirs) { progress = theirs; }

static __thread long asleep;    /* the time until which the thread sleeps */
static __thread long duration;  /* of the sleeps until then */

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Give the processor away; if it comes back late, sleep from now on.  */
static void yield(long begin)
{
    diffuse_yields++;
    sched_yield();
    long end = now();
    if (end - begin <= LATE)
        return;
    prctl(PR_SET_TIMERSLACK, EXACT);
    if (begin - asleep > SOON)
        duration = FIRST;
    else
        duration = 2 * duration < LONGEST ? 2 * duration : LONGEST;
    asleep = end + duration;
}

static void rest(void)
{
    static const struct timespec sleep = {0, SLEEP};
    long begin = now();
    if (begin >= asleep) {
        yield(begin);
        return;
    }
    diffuse_yields += YIELDS;
    nanosleep(&sleep, 0);
}

EXPORT unsigned ucp_worker_progress(void *worker)
{
    static __thread int empty;
    unsigned events = progress(worker);
    if (events) {
        empty = 0;
        diffuse_events++;
    } else if (++empty >= PATIENCE) {
        empty = PATIENCE;
        rest();
    }
    return events;
}
