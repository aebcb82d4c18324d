/* In the place of the driver's cuLaunchKernel: runs grid kernels that were compiled for the host, thread by thread,
   in another order at each launch.  It wants the parameters that a driver would, and notes what it was asked. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*Kernel)(void *block, int64_t groups, int64_t argument, int64_t order);

static long launches, failing;
static void *streams[2];

int launch(void *function, unsigned groups, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
           unsigned shared, void *stream, void **parameters, void **extra)
{
    char block[32768];
    size_t bytes;
    int64_t argument;
    long number = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    if (failing && number >= failing)
        return 719;
    if (!function || !groups || y != 1 || z != 1 || threads != 256 || ty != 1 || tz != 1 || shared || parameters
        || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return 1;
    bytes = *(size_t *)extra[3];
    if (bytes > sizeof block)
        return 1;
    streams[stream != NULL] = stream;
    memcpy(block, extra[1], bytes);  /* by value: the caller may change its own at once */
    memcpy(&argument, block + bytes - 8, 8);
    ((Kernel)function)(block, groups, argument, number % 3);
    return 0;
}

long launched(void) { return launches; }

void fail_from(long number) { failing = number; }

void *last_stream(void) { return streams[1]; }
