/* UCX's ucp_worker_progress, which gives the processor away when there was nothing to do.

   A thread of Legate's network layer calls it in a loop, and never sleeps.  Where as many ranks as processors share
   a machine, that loop keeps the thread that has work waiting until the scheduler takes its processor away, several
   milliseconds for each message.  Loaded with RTLD_GLOBAL before Legate, this library comes first when the dynamic
   linker looks the function up; UCX itself is told to it, so that it never has to be searched for.

   The thread yields as long as it soon gets the processor back.  Beside other programs that compute it does so only
   when each of them has used up its time slice, so that every message takes some ten milliseconds.  After a yield that
   took as long, the thread sleeps between polls for a while: the scheduler prefers a thread that slept to those that
   compute.  It yields where its own process is what computes, which its sleeps would interrupt again and again.

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
    RECENT = 500000,     /* since the processor time was read, at most, when a yield begins */
    EXACT = 1000         /* by which a sleep may be longer; by default the system adds 50,000 */
};
enum { YIELDS = 100 };   /* that a sleep counts for: nobody has to make way for a thread that slept */

typedef unsigned progress_function(void *worker);

static progress_function *progress;

EXPORT unsigned long diffuse_yields;  /* times that the thread gave its processor away */
EXPORT unsigned long diffuse_events;  /* polls that found something */

EXPORT void diffuse_yield_around(progress_function *theirs) { progress = theirs; }

typedef struct {
    long wall, used;  /* nanoseconds: now, and of processor time that this process has used */
} Moment;

static __thread long asleep;    /* the time until which the thread sleeps */
static __thread long duration;  /* of the sleeps until then */
static __thread Moment looked;  /* when it last read the processor time */

static long read_clock(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static Moment now(void)
{
    return (Moment){read_clock(CLOCK_MONOTONIC), read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

/* Did threads of this process compute for most of the time?  Beside other programs they get less of a processor.  */
static int computed(Moment begin, Moment end)
{
    return 4 * (end.used - begin.used) >= 3 * (end.wall - begin.wall);
}

/* Give the processor away; if other programs kept it for long, sleep from now on.  The processor time is a system call
   away, so that it is not read around each yield.  */
static void yield(long begin)
{
    if (begin - looked.wall > RECENT)
        looked = now();
    diffuse_yields++;
    sched_yield();
    if (read_clock(CLOCK_MONOTONIC) - begin <= LATE)
        return;
    Moment before = looked;
    looked = now();
    if (computed(before, looked))
        return;
    prctl(PR_SET_TIMERSLACK, EXACT);
    if (begin - asleep > SOON)
        duration = FIRST;
    else
        duration = 2 * duration < LONGEST ? 2 * duration : LONGEST;
    asleep = looked.wall + duration;
}

/* Leave the processor to others until the next poll.  */
static void rest(void)
{
    static const struct timespec sleep = {0, SLEEP};
    long begin = read_clock(CLOCK_MONOTONIC);
    if (begin >= asleep) {
        yield(begin);
        return;
    }
    diffuse_yields += YIELDS;
    nanosleep(&sleep, 0);
    if (begin - looked.wall > LATE) {
        Moment before = looked;
        looked = now();
        if (computed(before, looked))
            asleep = 0;
    }
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
