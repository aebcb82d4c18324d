/* Launches of compiled code on the runtime's threads without a task, for what the program waits for at once.
 *
 * A thread that sleeps is not woken for a launch of some 10 us: the wake takes longer.  While a thread polls for work,
 * it joins in for nothing.  So one is woken once a launch, or launches that follow closely on each other, have lost as
 * much time by its sleep as its wake takes, and it polls as long as they go on.  Other programs may leave no processor
 * to it: what launches gain by it is measured, and where that is less than a wake takes, the next one comes later and
 * later.  Where launches lose by it, the time of one thread is measured again, as it may have been measured while the
 * caches held the elements. */
#include "team.h"
#include <time.h>

enum { MOST_POINTS = 64 };
enum { CLOSE = 100000 };        /* nanoseconds between launches that follow closely on each other, at most */
enum { LEAST = 8000 };          /* nanoseconds of a launch for which a thread is woken: shorter ones come and go sooner */
enum { LONG = 20000 };          /* nanoseconds of a launch that a polling thread joins in any case */
enum { WAKE = 100000, LATEST = 100 * WAKE }; /* nanoseconds that a wake takes, and that are lost before one at most */
enum { HEAVY = 5 * WAKE };      /* nanoseconds of a launch that gains by a wake of its own */
enum { LIMIT = 50000000 };      /* nanoseconds for which the pool's wait sleeps at most */
enum { DOMAIN, TILE };          /* the words of a block that say how a launch is cut into points */

typedef int64_t (*Submit)(char *pool, void *kernel, void *finish, int64_t points, char *block, int64_t size);
typedef int64_t (*Wait)(char *pool, int64_t launch, int64_t limit);

/* The pool of threads (runtime/base.py, Team). */
static struct {
    Submit submit, light;
    Wait wait;
    char *pool;
    volatile uint64_t *ticket, *submitted;
    volatile uint32_t *sleepers, *flags;
    Py_ssize_t shift, workers;
    PyObject *kept; /* as long as which the memory stays */
} team;

static PyObject *ask; /* the function that says what the pool is, or None */

/* Nanoseconds: the end of the last launch; what was lost since the last wake, and the loss that is due for the next
 * one; what launches have gained since the last wake. */
static int64_t ended, lost, due = WAKE, gained;

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Find the pool: 0, without an exception, while there is none. */
static int found(void)
{
    PyObject *said = ask == NULL ? NULL : PyObject_CallNoArgs(ask), *kept;
    unsigned long long words[8];
    int done = said != NULL && said != Py_None
        && PyArg_ParseTuple(said, "KKKKKKKKnnO", &words[0], &words[1], &words[2], &words[3], &words[4], &words[5],
                            &words[6], &words[7], &team.shift, &team.workers, &kept);
    if (done) {
        team.submit = (Submit)words[0], team.light = (Submit)words[1], team.wait = (Wait)words[2];
        team.ticket = (volatile uint64_t *)words[4], team.submitted = (volatile uint64_t *)words[5];
        team.sleepers = (volatile uint32_t *)words[6], team.flags = (volatile uint32_t *)words[7];
        Py_XSETREF(team.kept, Py_NewRef(kept));
        team.pool = (char *)words[3];
    }
    Py_XDECREF(said);
    PyErr_Clear();
    return done;
}

/* Is a launch that takes so long alone to be shared with other threads?  1: with those that poll, 2: one is woken. */
static int shared(int64_t start, int64_t alone, npy_intp points)
{
    int64_t near = start - ended <= CLOSE;
    int polls = team.pool != NULL && *team.sleepers + points - 1 <= team.workers && gained > -WAKE;
    if (alone == 0 || (polls && (near || alone >= LONG)))
        return alone != 0;
    if (alone < LEAST)
        return 0;
    if (alone >= HEAVY && gained > -WAKE)
        return team.pool != NULL || found() ? 2 : 0;
    lost = (near ? lost : 0) + alone / points * (points - 1);
    if (lost < due)
        return 0;
    due = gained >= WAKE ? WAKE : due < LATEST ? 2 * due : LATEST;
    lost = gained = 0;
    return team.pool != NULL || found() ? 2 : 0;
}

/* Launch and wait: 0, with nothing done, if others submit, or what they submitted is not done. */
static int launched(int woken, Point run, Finish finish, int64_t *block, npy_intp words, npy_intp points,
                    unsigned *raised)
{
    if (team.workers < points - 1 || *team.ticket >> team.shift != *team.submitted || !small_unlocked())
        return 0;
    uint32_t flags = *team.flags; /* of earlier launches */
    *team.flags = 0;
    int64_t number = (woken ? team.submit : team.light)(team.pool, (void *)run, (void *)finish, points, (char *)block,
                                                       words * (int64_t)sizeof *block);
    while (number > 0 && !team.wait(team.pool, number, LIMIT))
        ;
    *raised = *team.flags & SMALL_RAISED;
    *team.flags = flags;
    return number > 0;
}

/* Run a launch of one point on this thread. */
static unsigned ran_alone(Point run, int64_t *block)
{
    small_clear();
    run((char *)block, 0);
    unsigned raised = small_raised();
    small_clear();
    return raised;
}

unsigned small_team_run(Point run, Finish finish, int64_t *block, npy_intp words, npy_intp size, npy_intp row,
                        npy_intp leaf, int64_t *alone)
{
    npy_intp most = team.pool == NULL ? 2 : team.workers + 1, points = size * row / SMALL_SHARE;
    points = points < most ? points : most < MOST_POINTS ? most : MOST_POINTS;
    points = points * leaf <= size ? points : size / leaf;
    if (points < 2)
        return ran_alone(run, block);
    int64_t start = now(), took, domain = block[DOMAIN], whole = block[TILE];
    int how = shared(start, *alone, points);
    unsigned raised = 0;
    if (how) {
        block[TILE] = ((size + points - 1) / points + leaf - 1) / leaf * leaf;
        block[DOMAIN] = (size + block[TILE] - 1) / block[TILE];
        how = launched(how == 2, run, finish, block, words, block[DOMAIN], &raised) ? how : 0;
    }
    if (!how) {
        block[DOMAIN] = domain;
        block[TILE] = whole;
        raised = ran_alone(run, block);
    }
    ended = now();
    took = ended - start;
    if (how == 2 && *alone < HEAVY) /* it took as long as the wake, which tells nothing of later launches */
        return raised;
    if (how)
        gained += gained > LATEST && took < *alone ? 0 : *alone - took;
    else if (gained <= -WAKE && *alone != 0) { /* sharing lost time, or all launches take longer now */
        if (took > *alone + *alone / 8) {
            gained = 0;
            due = WAKE;
        }
        *alone = took;
    } else
        *alone = *alone == 0 || took < *alone ? took : *alone + (took - *alone) / 64;
    return raised;
}

void small_connect_team(PyObject *function)
{
    team.pool = NULL;
    Py_CLEAR(team.kept);
    Py_XSETREF(ask, Py_NewRef(function));
    lost = gained = 0;
    due = WAKE;
}
