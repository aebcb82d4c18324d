/* UCX's ucp_worker_progress, which gives the processor away when there was nothing to do.

   A thread of Legate's network layer calls it in a loop.  Where as many ranks as processors share a machine, a loop
   that never rests keeps the thread that has work waiting until the scheduler takes its processor away, several
   milliseconds for each message.  Loaded with RTLD_GLOBAL before Legate, this library comes first when the dynamic
   linker looks the function up; UCX itself is told to it, so that it never has to be searched for.

   The thread yields where it gets the processor back at once.  Where others compute on the same processor, each of them
   first uses up its time: on a machine with other work, a message then takes some ten milliseconds, and a program of
   many small launches a multiple of its time.  There the thread sleeps instead, a little longer each time that no
   message has come, because the scheduler prefers a thread that has slept to those that compute.

   A thread that is about to compute for long waits, by the two counters, until messages have come and gone
   (trampoline.cc).  */

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { PATIENCE = 20 };         /* polls that find nothing before the thread rests; a busy connection has fewer */
enum { LATE = 500000 };         /* nanoseconds after which a yield has given the processor to others that compute */
enum { CROWDED = 100000000 };   /* nanoseconds for which the thread then sleeps instead of yielding */
enum { SHORTEST = 20000, LONGEST = 100000 };  /* nanoseconds of a sleep */
enum { EXACT = 1000 };          /* nanoseconds by which a sleep may be longer; by default the system adds 50,000 */
enum { SLEEP = 100 };           /* yields that a sleep counts for: nobody has to make way for a thread that slept */

typedef unsigned progress_function(void *worker);

static progress_function *progress;

EXPORT unsigned long diffuse_yields;  /* times that the thread gave its processor away */
EXPORT unsigned long diffuse_events;  /* polls that found something */

EXPORT void diffuse_yield_around(progress_function *theirs) { progress = theirs; }

static __thread long crowded;  /* the time until which the thread sleeps */
static __thread long length;   /* of its next sleep */

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void yield(long begin)
{
    sched_yield();
    diffuse_yields++;
    long end = now();
    if (end - begin > LATE) {
        prctl(PR_SET_TIMERSLACK, EXACT);
        crowded = end + CROWDED;
        length = SHORTEST;
    }
}

static void sleep_shortly(void)
{
    struct timespec time = {0, length};
    diffuse_yields += SLEEP;
    nanosleep(&time, 0);
    length = 2 * length < LONGEST ? 2 * length : LONGEST;
}

EXPORT unsigned ucp_worker_progress(void *worker)
{
    static __thread int empty;
    unsigned events = progress(worker);
    if (events) {
        empty = 0;
        length = SHORTEST;
        diffuse_events++;
    } else if (++empty >= PATIENCE) {
        long begin = now();
        empty = PATIENCE;
        if (begin < crowded)
            sleep_shortly();
        else
            yield(begin);
    }
    return events;
}
