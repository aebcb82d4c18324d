/* What the files have in common that draw random numbers in place of NumPy's generators. */
#ifndef DIFFUSE_DRAWS_H
#define DIFFUSE_DRAWS_H

#include "gate.h"
#include <numpy/random/bitgen.h>

enum { FEWEST_INTEGERS = 1000, /* for which it is worth a look whether half of a word is left over */
       LEAST = 20000 };        /* numbers that are worth being drawn in pieces */

/* A generator of NumPy's while numbers are drawn from its source, whose lock is held. */
typedef struct {
    PyObject *bits, *lock;
    bitgen_t *source;
} Drawing;

enum { SMALL_BLOCK = 256, SMALL_LANES = 8 }; /* words that are made together, of sequences that are made side by side */

/* Words of a PCG64 in their order, and how many were taken. */
typedef struct {
    long long taken;
    int at; /* the next word of the block */
    uint64_t low[SMALL_LANES], high[SMALL_LANES]; /* the next state of each sequence */
    uint64_t stride[4]; /* the factor and the term that move it to its next one, the lower half of each first */
    uint64_t block[SMALL_BLOCK];
} Words;

void small_more_words(Words *words); /* the next block */

static inline uint64_t small_word(Words *words)
{
    if (words->at == SMALL_BLOCK)
        small_more_words(words);
    words->taken++;
    return words->block[words->at++];
}

enum { LAYERS = 256, SIGN = 8 }; /* the bit of a word that is a number's sign, if it has one */

/* Numbers of a distribution that NumPy draws by the ziggurat method (ziggurat.c). */
typedef struct {
    double (*numpys)(bitgen_t *); /* random_standard_normal of numpy.random, or the like */
    int layer, far, bits;   /* the lowest bits of a word's layer and of its distance, and how many bits that has */
    uint64_t sign;          /* 1 if numbers have one */
    int ready;              /* are the layers known?  -1: NumPy's numbers are others */
    npy_intp left;          /* numbers that are drawn before they are asked for */
    double width[LAYERS];   /* for each layer, what the distances in words are multiplied by */
    uint64_t least[LAYERS]; /* and the least distance from which on a word may not be a number */
} Layers;

/* Which numbers are drawn: at most `each` of a word, of 8 bytes each. */
typedef struct {
    npy_intp each;
    int64_t low;      /* of integers: the least one, and how many there are */
    uint32_t length;
    const Layers *layers; /* of other numbers */
    int scaled;       /* and are these multiplied by scale[1] and moved by scale[0]? */
    double scale[2];
} Recipe;

/* Draw numbers until so many words were taken, those included that were taken before; gives how many numbers. */
typedef npy_intp (*Make)(Words *words, long long end, const Recipe *recipe, void *out);

/* Draw numbers of an array from number `first` on; gives how many, which may be none.  NumPy's generator goes on behind
 * them.  -1 with an exception. */
npy_intp small_draw_pieces(Drawing *drawing, PyArrayObject *array, npy_intp first, Make make, const Recipe *recipe);
/* Are so many numbers, of so many words, worth that?  Without vectors NumPy's generator is as fast in one thread. */
int small_in_pieces(npy_intp count, npy_intp words);
int small_is_pcg64(PyObject *bits);
/* An array for drawn numbers: NumPy's, or a large one in memory that the runtime has kept. */
PyObject *small_drawn_into(int rank, npy_intp *shape, int type);

/* Of wide.c, for processors that it says are wide: the next block of words; a block's integers, and whether any of them
 * is refused; evenly distributed numbers of some words, all but for less than 8; numbers of layers of some
 * words, all that come before one that a word may not be, or but for less than 8. */
int small_is_wide(void);
void small_wide_words(Words *words);
int small_wide_integers(const uint64_t *words, int64_t *out, int64_t low, uint32_t length);
int small_wide_evens(const uint64_t *words, int many, double *out);
int small_wide_layers(const Layers *of, const uint64_t *words, int many, double *out);

int small_begin_drawing(PyObject *generator, Drawing *drawing); /* -1 with an exception */
int small_end_drawing(Drawing *drawing); /* whether it was begun or not; -1 with an exception, one before or its own */
int small_shape_of(PyObject *size, npy_intp *shape); /* the number of dimensions; -1 where that is not plain */

/* Of ziggurat.c and integers.c: the arrays that calls of methods draw from this generator of NumPy's; NULL, without an
 * exception unless one was raised, where NumPy or Diffuse's own function has to draw them. */
PyObject *small_reals(Gate *gate, PyObject *generator, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
PyObject *small_integers(PyObject *generator, int64_t low, int64_t high, int rank, npy_intp *shape);

#endif
