/* Count how many lines end in each block of a file: the only part of this project that is not Python.

   `bytes.count` checks one byte at a time and holds the interpreter lock meanwhile. This checks 16 or more at a time, and
   lets other threads run. It reads into a buffer that stays in the processor's cache. mmap would be faster still, but if
   another process truncated the file meanwhile, a signal would end ours.

   Built by scripts/build_native.py, for the stable ABI of Python 3.11 and later. Without it, read_lines.py counts in
   Python. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#define _FILE_OFFSET_BITS 64
#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BUFFER = 1 << 16, /* bytes; faster than 32 KB and than 256 KB */
    LANES = 64,
    ROUNDS = 255, /* the largest count in a lane of one byte */
};

/* Twice as wide, if the processor supports it: checked when this is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDEST __attribute__((target_clones("avx2", "default")))
#else
#define WIDEST
#endif

/* Written so that compilers turn the inner loop into vector instructions. */
WIDEST static uint64_t newlines_in(const unsigned char *data, size_t size)
{
    uint64_t total = 0;
    size_t at = 0;
    while (size - at >= LANES) {
        unsigned char lanes[LANES] = {0};
        size_t rounds = (size - at) / LANES;
        if (rounds > ROUNDS)
            rounds = ROUNDS;
        for (size_t round = 0; round < rounds; round++, at += LANES)
            for (int lane = 0; lane < LANES; lane++)
                lanes[lane] += data[at + lane] == '\n';
        for (int lane = 0; lane < LANES; lane++)
            total += lanes[lane];
    }
    for (; at < size; at++)
        total += data[at] == '\n';
    return total;
}

/* Counts one block. Returns how many bytes of it there are, or -1 with errno. */
static int64_t count_block(int fd, int64_t start, int64_t size, unsigned char *buffer, uint64_t *ends)
{
    int64_t done = 0;
    *ends = 0;
    while (done < size) {
        int64_t wanted = size - done < BUFFER ? size - done : BUFFER;
        ssize_t got = pread(fd, buffer, (size_t)wanted, (off_t)(start + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        *ends += newlines_in(buffer, (size_t)got);
        done += got;
    }
    return done;
}

/* Counts blocks until one is not full. Returns how many bytes there are, or -1 with errno. */
static int64_t count_blocks(int fd, int64_t start, Py_ssize_t blocks, int64_t size, uint64_t *ends, Py_ssize_t *counted)
{
    int64_t done = 0;
    unsigned char *buffer = malloc(BUFFER);
    *counted = 0;
    if (buffer == NULL)
        return -1; /* errno is ENOMEM */
    while (*counted < blocks) {
        int64_t here = count_block(fd, start + done, size, buffer, &ends[*counted]);
        if (here < 0) {
            int why = errno;
            free(buffer);
            errno = why;
            return -1;
        }
        done += here;
        *counted += here > 0;
        if (here < size)
            break;
    }
    free(buffer);
    return done;
}

PyDoc_STRVAR(count_doc,
             "count(fd, start, blocks, size, /)\n--\n\n"
             "How many lines end in each block of this size, from `start` on, as bytes of an array of 64-bit numbers;\n"
             "and how many bytes there are in all. It ends at the first block that is not full.");

static PyObject *count(PyObject *self, PyObject *arguments)
{
    int fd;
    long long start, size;
    Py_ssize_t blocks, counted;
    int64_t done;
    uint64_t *ends;
    PyObject *made;

    (void)self;
    if (!PyArg_ParseTuple(arguments, "iLnL:count", &fd, &start, &blocks, &size))
        return NULL;
    if (start < 0 || blocks < 1 || size < 1 || blocks > (Py_ssize_t)(PY_SSIZE_T_MAX / sizeof *ends)
        || size > (INT64_MAX - start) / blocks) {
        PyErr_SetString(PyExc_ValueError, "'start' is at least 0, 'blocks' and 'size' at least 1, and none is enormous");
        return NULL;
    }
    ends = malloc((size_t)blocks * sizeof *ends);
    if (ends == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    done = count_blocks(fd, start, blocks, size, ends, &counted);
    Py_END_ALLOW_THREADS
    if (done < 0)
        made = PyErr_SetFromErrno(PyExc_OSError);
    else
        made = Py_BuildValue("y#L", (char *)ends, counted * (Py_ssize_t)sizeof *ends, (long long)done);
    free(ends);
    return made;
}

static PyMethodDef functions[] = {{"count", count, METH_VARARGS, count_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_newlines", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__newlines(void)
{
    return PyModuleDef_Init(&definition);
}
