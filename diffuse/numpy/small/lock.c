/* The engine's lock, an RLock of Python's. */
#include "small.h"

static PyObject *lock, *acquire, *release;
static Py_ssize_t count = -1; /* the word of the lock that says how often it is held; negative: not known */

enum { MOST_WORDS = 32 };

/* Does nobody hold the lock?  No, where that is not known.  To take it and give it back is a sixth of the time that
 * it takes to record an operation, and needless where no other thread gets a turn before all is done. */
int small_unlocked(void) { return count >= 0 && ((unsigned long *)lock)[count] == 0; }

int small_lock(void)
{
    PyObject *got = PyObject_CallNoArgs(acquire);
    Py_XDECREF(got);
    return got == NULL ? -1 : 0;
}

void small_unlock(void)
{
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    Py_XDECREF(PyObject_CallNoArgs(release));
    if (type != NULL)
        PyErr_Restore(type, error, traceback);
}

/* Which word of a lock counts how often it is held?  Found by taking one: Python has no name for it. */
static int find_count(void)
{
    static const struct { const char *step; unsigned long held; } STEPS[] = {
        {"acquire", 1}, {"acquire", 2}, {"release", 1}, {"release", 0}};
    Py_ssize_t words = Py_TYPE(lock)->tp_basicsize / (Py_ssize_t)sizeof(unsigned long), found = 0;
    int counts[MOST_WORDS];
    if (words > MOST_WORDS)
        return 0;
    PyObject *other = PyObject_CallNoArgs((PyObject *)Py_TYPE(lock));
    for (Py_ssize_t word = 0; word < words; word++)
        counts[word] = 1;
    for (size_t k = 0; other != NULL && k < sizeof STEPS / sizeof *STEPS; k++) {
        PyObject *done = PyObject_CallMethod(other, STEPS[k].step, NULL);
        Py_XDECREF(done);
        if (done == NULL)
            Py_CLEAR(other);
        for (Py_ssize_t word = 0; other != NULL && word < words; word++)
            counts[word] &= ((unsigned long *)other)[word] == STEPS[k].held;
    }
    for (Py_ssize_t word = 0; other != NULL && word < words; word++)
        if (counts[word]) {
            count = word;
            found++;
        }
    if (found != 1)
        count = -1;
    Py_XDECREF(other);
    return other == NULL ? -1 : 0;
}

int small_connect_lock(PyObject *engine)
{
    lock = PyObject_GetAttrString(engine, "_lock");
    acquire = lock == NULL ? NULL : PyObject_GetAttrString(lock, "acquire");
    release = acquire == NULL ? NULL : PyObject_GetAttrString(lock, "release");
    return release == NULL ? -1 : find_count();
}
