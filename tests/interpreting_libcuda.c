/* NVIDIA's driver for tests: each function calls Python (tests/interpreted_driver.py) with its name and its
   arguments, which are all integers and pointers. */

extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern void *PyImport_ImportModule(const char *);
extern void *PyObject_CallMethod(void *, const char *, const char *, ...);
extern long PyLong_AsLong(void *);
extern void Py_DecRef(void *);
extern void PyErr_Print(void);

#define MANY long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k

static int ask(const char *name, MANY)
{
    int state = PyGILState_Ensure(), error = 999;
    void *module = PyImport_ImportModule("tests.interpreted_driver");
    void *answer = module ? PyObject_CallMethod(module, "answer", "slllllllllll", name, a, b, c, d, e, f, g, h,
                                                i, j, k) : 0;
    if (answer)
        error = (int)PyLong_AsLong(answer);
    else
        PyErr_Print();
    Py_DecRef(answer);
    Py_DecRef(module);
    PyGILState_Release(state);
    return error;
}

#define DRIVER(name) int name(MANY) { return ask(#name, a, b, c, d, e, f, g, h, i, j, k); }

DRIVER(cuInit)
DRIVER(cuDriverGetVersion)
DRIVER(cuDeviceGet)
DRIVER(cuDeviceGetCount)
DRIVER(cuDeviceGetName)
DRIVER(cuDeviceGetAttribute)
DRIVER(cuDevicePrimaryCtxRetain)
DRIVER(cuCtxSetCurrent)
DRIVER(cuCtxGetCurrent)
DRIVER(cuCtxPushCurrent_v2)
DRIVER(cuCtxPopCurrent_v2)
DRIVER(cuStreamCreate)
DRIVER(cuStreamSynchronize)
DRIVER(cuStreamWaitEvent)
DRIVER(cuEventCreate)
DRIVER(cuEventRecord)
DRIVER(cuEventSynchronize)
DRIVER(cuDeviceGetDefaultMemPool)
DRIVER(cuMemPoolSetAttribute)
DRIVER(cuMemPoolGetAttribute)
DRIVER(cuMemPoolTrimTo)
DRIVER(cuMemGetInfo_v2)
DRIVER(cuMemHostAlloc)
DRIVER(cuMemAllocAsync)
DRIVER(cuMemFreeAsync)
DRIVER(cuMemcpyHtoDAsync_v2)
DRIVER(cuMemcpyDtoHAsync_v2)
DRIVER(cuLinkCreate_v2)
DRIVER(cuLinkAddData_v2)
DRIVER(cuLinkComplete)
DRIVER(cuLinkDestroy)
DRIVER(cuDeviceTotalMem_v2)
DRIVER(cuLibraryLoadData)
DRIVER(cuLibraryGetKernel)
DRIVER(cuModuleLoadData)
DRIVER(cuModuleGetFunction)
DRIVER(cuLaunchKernel)
DRIVER(cuGetErrorName)
DRIVER(cuGetErrorString)
