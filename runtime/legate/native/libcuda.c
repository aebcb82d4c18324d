/* A libcuda.so.1 for machines without NVIDIA's driver: every question is answered "no device".

   Legate's libraries name four of the driver's functions and look all others up through cuGetProcAddress; they
   call few of them once cuInit has said that there is no device.  Built with the driver's SONAME and loaded
   before Legate, so that the dynamic linker takes it for the driver.  */

#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, NO_DEVICE = 100 };

static int absent(void) { return NO_DEVICE; }

EXPORT int cuInit(unsigned flags) { (void)flags; return NO_DEVICE; }
EXPORT int cuMemFree_v2(unsigned long long address) { (void)address; return NO_DEVICE; }
EXPORT int cuMemFreeHost(void *address) { (void)address; return NO_DEVICE; }

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 0;
    return SUCCESS;
}

EXPORT int cuGetErrorName(int error, const char **text)
{
    *text = error == SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_NO_DEVICE";
    return SUCCESS;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
    *text = error == SUCCESS ? "no error" : "this machine has no NVIDIA driver";
    return SUCCESS;
}

static void *lookup(const char *name)
{
    static const struct { const char *name; void *function; } known[] = {
        {"cuInit", (void *)cuInit},
        {"cuDriverGetVersion", (void *)cuDriverGetVersion},
        {"cuGetErrorName", (void *)cuGetErrorName},
        {"cuGetErrorString", (void *)cuGetErrorString},
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].function;
    return (void *)absent;
}

EXPORT int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    (void)version, (void)flags;
    *function = lookup(name);
    return SUCCESS;
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                               int *status)
{
    if (status)
        *status = 0;  /* found */
    return cuGetProcAddress(name, function, version, flags);
}
