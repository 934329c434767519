/* A warmed-up call takes no memory: every way to ask for some is counted here, of all threads.
 *
 * The functions below take the place of the C library's and of operator new for the whole program. */
#include <minilm.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long taken;

void *malloc(size_t n) {
  atomic_fetch_add(&taken, 1);
  return __libc_malloc(n);
}
void *calloc(size_t count, size_t n) {
  atomic_fetch_add(&taken, 1);
  return __libc_calloc(count, n);
}
void *realloc(void *p, size_t n) {
  atomic_fetch_add(&taken, 1);
  return __libc_realloc(p, n);
}
void *memalign(size_t alignment, size_t n) {
  atomic_fetch_add(&taken, 1);
  return __libc_memalign(alignment, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
  atomic_fetch_add(&taken, 1);
  return __libc_memalign(alignment, n);
}
int posix_memalign(void **p, size_t alignment, size_t n) {
  atomic_fetch_add(&taken, 1);
  *p = __libc_memalign(alignment, n);
  return *p ? 0 : ENOMEM;
}
void *mmap(void *where, size_t n, int protection, int flags, int file, off_t offset) {
  atomic_fetch_add(&taken, 1);
  return (void *)syscall(SYS_mmap, where, n, protection, flags, file, offset);
}
/* operator new and new[], plain and aligned, as the x86-64 and AArch64 ABIs call them */
void *_Znwm(size_t n) { return malloc(n); }
void *_Znam(size_t n) { return malloc(n); }
void *_ZnwmSt11align_val_t(size_t n, size_t alignment) { return memalign(alignment, n); }
void *_ZnamSt11align_val_t(size_t n, size_t alignment) { return memalign(alignment, n); }
void *_ZnwmRKSt9nothrow_t(size_t n, const void *tag) {
  (void)tag;
  return malloc(n);
}
void *_ZnamRKSt9nothrow_t(size_t n, const void *tag) {
  (void)tag;
  return malloc(n);
}

enum { LONGEST = 128, MOST = 8, WIDTH = 384 };
static int64_t ids[MOST * LONGEST], mask[MOST * LONGEST];
static float embedding[MOST * WIDTH];

static minilm_status embed(minilm_context *context, int64_t batch, int64_t sequence) {
  int64_t in_shape[2] = {batch, sequence}, out_shape[2] = {batch, WIDTH};
  minilm_tensor t[3];
  memset(t, 0, sizeof t);
  for (int i = 0; i < 3; ++i) {
    t[i].device_type = 1;
    t[i].ndim = 2;
    t[i].code = i == 2 ? 2 : 0;
    t[i].bits = i == 2 ? 32 : 64;
    t[i].lanes = 1;
    t[i].shape = i == 2 ? out_shape : in_shape;
  }
  t[0].data = ids;
  t[1].data = mask;
  t[2].data = embedding;
  return minilm_embed(context, &t[0], &t[1], &t[2]);
}

/* Whether `times` calls at these dims give `status` and take nothing. */
static int takes_nothing(minilm_context *context, int64_t batch, int64_t sequence, minilm_status status) {
  const long before = atomic_load(&taken);
  int agree = 1;
  for (int i = 0; i < 3; ++i) agree &= embed(context, batch, sequence) == status;
  const long found = atomic_load(&taken) - before;
  printf("batch %d, sequence %d: %ld allocations\n", (int)batch, (int)sequence, found);
  return agree && found == 0;
}

static int test(minilm_model *model, int32_t threads) {
  const long before = atomic_load(&taken);
  minilm_context_options options = {0};
  options.struct_size = sizeof options;
  options.threads = threads;
  minilm_context *context = NULL;
  if (minilm_context_open(model, &options, &context) != MINILM_OK) return 0;
  int ok = embed(context, 5, LONGEST) == MINILM_OK;
  const long opening = atomic_load(&taken) - before;
  printf("%d threads: %ld allocations for a context and its first call\n", (int)threads, opening);
  ok &= opening > 0; /* or nothing is counted at all */
  ok &= takes_nothing(context, 5, LONGEST, MINILM_OK);
  ok &= takes_nothing(context, 5, 17, MINILM_OK); /* dims that need less */
  ok &= takes_nothing(context, 1, 1, MINILM_OK);
  ids[3] = -1;
  ok &= takes_nothing(context, 5, LONGEST, MINILM_BAD_ARGUMENT);
  ids[3] = 3;
  ok &= takes_nothing(context, 5, LONGEST, MINILM_OK);
  minilm_context_close(context);
  return ok;
}

int main(void) {
  for (int i = 0; i < MOST * LONGEST; ++i) {
    ids[i] = i % 30522;
    mask[i] = i % 3 != 1;
  }
  minilm_model_options options = {0};
  options.struct_size = sizeof options;
  options.weights_path = WEIGHTS;
  minilm_model *model = NULL;
  if (minilm_model_open(&options, &model) != MINILM_OK) return 2;
  const int ok = test(model, 1) & test(model, 2) & test(model, 4);
  minilm_model_close(model);
  return ok ? 0 : 1;
}
