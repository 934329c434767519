/* tiny 1.2.3: the C interface. Emitted by lumigen.
 *
 *   forward(x: f32[batch, 7]) -> y: f32[batch, 20], total: f32[batch]; batch 1..64
 *   lookup(ids: i64[n + 1]) -> rows: f32[n + 1, 7]; n 2..1000, a multiple of 2
 *
 * Tensors are borrowed for the call. Outputs are the caller's and are written in place; one that overlaps an input
 * is refused. A model is immutable and may be used from any thread; a context serves one call at a time.
 * Nothing is global, nothing is thrown, and dtypes are never converted.
 */
#ifndef TINY_H
#define TINY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TINY_API __attribute__((visibility("default")))
#else
#define TINY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tiny_model tiny_model;     /* weights; contexts keep it alive */
typedef struct tiny_context tiny_context; /* workspace and threads; one call at a time */

typedef int32_t tiny_status; /* grows only at its end */
enum {
  TINY_OK,
  TINY_BAD_ARGUMENT,
  TINY_BAD_DTYPE,
  TINY_BAD_SHAPE,
  TINY_BAD_DEVICE,
  TINY_BAD_WEIGHTS,
  TINY_NO_MEMORY,
  TINY_UNSUPPORTED,
  TINY_BUSY,
  TINY_CANCELLED,
  TINY_DEVICE_FAILED,
  TINY_INTERNAL
};

/* Bit for bit DLPack's DLTensor. */
typedef struct {
  void *data;
  int32_t device_type; /* 1: CPU */
  int32_t device_id;
  int32_t ndim;
  uint8_t code; /* 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
  int64_t *shape;
  int64_t *strides; /* in elements; NULL or row-major */
  uint64_t byte_offset;
} tiny_tensor;

/* In both options zero is the default, and NULL options are all defaults. A struct_size smaller than this version's
 * means defaults for the rest; zero or a larger one is refused. */
typedef struct {
  size_t struct_size;
  const char *weights_path; /* a safetensors file; or: */
  const void *weights;      /* its bytes, which must outlive the model */
  size_t weights_bytes;
  int32_t device_id; /* 0 on the CPU */
  int32_t log_level; /* 0: a line for each model that is opened; -1: nothing */
  void *user; /* handed to the functions below, which must not throw; allocate and release come together */
  void *(*allocate)(void *user, size_t bytes, size_t align, int32_t device_type);
  void (*release)(void *user, void *p, size_t bytes, int32_t device_type);
  void (*log)(void *user, int32_t level, const char *text); /* NULL: silent */
  int32_t mmap;     /* 0: weights_path is mapped, and must not be made shorter or written over while the model lives: the
                       process would end with SIGBUS, or compute with what is there then. To replace the file by
                       rename is fine. -1: it is read, and may change afterwards */
  int32_t reserved; /* 0 */
} tiny_model_options;

typedef struct {
  size_t struct_size;
  int32_t threads;        /* 0: all cores; 1: none is started */
  void *stream;           /* NULL on the CPU */
  void *workspace;        /* aligned to 64 bytes; NULL: the context allocates as runs need it */
  size_t workspace_bytes; /* see the _workspace functions */
  void *user;
  void (*parallel_for)(void *user, int32_t n, void (*task)(void *, int32_t), void *arg); /* a host's own threads; to throw ends the process */
} tiny_context_options;

#define TINY_ABI 1
TINY_API int32_t tiny_abi(void);
TINY_API const char *tiny_manifest(void);   /* JSON: entries, dims, weights, versions, hashes */
TINY_API const char *tiny_last_error(void); /* this thread's, until its next failure */
TINY_API tiny_status tiny_model_open(const tiny_model_options *, tiny_model **);
TINY_API void tiny_model_close(tiny_model *); /* NULL is fine */
TINY_API tiny_status tiny_context_open(tiny_model *, const tiny_context_options *, tiny_context **);
TINY_API void tiny_context_close(tiny_context *); /* waits for its run; NULL is fine */
TINY_API tiny_status tiny_context_cancel(tiny_context *); /* of the run in progress, from any thread; takes effect between kernels */
/* From the next call on, `report` is told of each kernel that a call ran: its name, the number of the launch among the
 * entry's "launches" in the manifest, and the seconds it took. In their order, on the thread of the call, before that
 * returns; of a call that fails it may be told of fewer. It must not use the context. NULL ends it. Off, as it is at
 * first, it costs nothing.
 * TINY_BUSY during a call. */
TINY_API tiny_status tiny_context_profile(tiny_context *, void (*report)(void *user, const char *kernel, int32_t launch, double seconds), void *user);
TINY_API tiny_status tiny_weights_verify(const char *path); /* reads all of it and compares the hash that lumigen wrote; of a plain safetensors file, which has none, it checks names, types, shapes and sizes */

/* forward(x: f32[batch, 7]) -> y: f32[batch, 20], total: f32[batch]; batch 1..64
 * _workspace: the bytes a run needs at these dims, at their maxima for NULL. _shape: the shapes of the outputs. */
typedef struct {
  int64_t batch; /* 1..64 */
} tiny_forward_dims;
TINY_API tiny_status tiny_forward_workspace(const tiny_model *, const tiny_forward_dims *, size_t *);
TINY_API tiny_status tiny_forward_shape(const tiny_forward_dims *, int64_t y[2], int64_t total[1]);
TINY_API tiny_status tiny_forward(tiny_context *, const tiny_tensor *x, const tiny_tensor *y, const tiny_tensor *total);

/* lookup(ids: i64[n + 1]) -> rows: f32[n + 1, 7]; n 2..1000, a multiple of 2
 * Values: ids 0..9. Others are refused.
 * _workspace: the bytes a run needs at these dims, at their maxima for NULL. _shape: the shapes of the outputs. */
typedef struct {
  int64_t n; /* 2..1000, a multiple of 2 */
} tiny_lookup_dims;
TINY_API tiny_status tiny_lookup_workspace(const tiny_model *, const tiny_lookup_dims *, size_t *);
TINY_API tiny_status tiny_lookup_shape(const tiny_lookup_dims *, int64_t rows[2]);
TINY_API tiny_status tiny_lookup(tiny_context *, const tiny_tensor *ids, const tiny_tensor *rows);

#ifdef __cplusplus
}
#endif

#endif
