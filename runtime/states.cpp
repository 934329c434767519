#include "states.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "file_map.h"
#include "model.h"
#include "safetensors.h"

namespace LUMIGEN_NS {

namespace {

constexpr size_t kChunk = size_t{1} << 20;  // of a state on its way to a file

// A file beside the one that it replaces once it is whole: that at the end of a link, whose mode it takes.
class NewFile {
 public:
  NewFile(const char* where, const char* path) : where_(where), path_(path) {}
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (file_ != nullptr) fclose(file_);
    if (is_there_) unlink(part_.c_str());
  }

  Status open() {
    mode_t mode = 0666;  // less what the process masks, as of any new file
    bool is_new = false;
    if (const Status s = follow(&mode, &is_new)) return s;
    int descriptor = -1;
    for (int n = 0; descriptor < 0; ++n) {
      part_ = path_ + "." + std::to_string(getpid()) + "-" + std::to_string(n);
      descriptor = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      if (descriptor < 0 && errno != EEXIST) return failed("made");
    }
    is_there_ = true;
    if (is_new || fchmod(descriptor, mode) == 0) file_ = fdopen(descriptor, "wb");
    if (file_ != nullptr) return kOk;
    const Status s = failed("made");
    close(descriptor);
    return s;
  }
  Status write(const char* data, size_t bytes) {
    return fwrite(data, 1, bytes, file_) == bytes ? kOk : failed("written");
  }
  Status finish() {
    const bool is_written = fflush(file_) == 0 && fsync(fileno(file_)) == 0;
    if (!is_written) return failed("written");
    const int closed = fclose(file_);
    file_ = nullptr;
    if (closed != 0 || rename(part_.c_str(), path_.c_str()) != 0) return failed("written");
    is_there_ = false;
    return kOk;
  }

 private:
  // From the path to the file that it names, with its mode.
  Status follow(mode_t* mode, bool* is_new) {
    struct stat about;
    if (stat(path_.c_str(), &about) != 0) {
      if (errno != ENOENT) return failed("made");
      if (lstat(path_.c_str(), &about) == 0)
        return fail(kBadArgument, "[%s] %s is a link that leads to no file. Name a file.", where_,
                    path_.c_str());
      *is_new = true;
      return kOk;
    }
    if (!S_ISREG(about.st_mode))
      return fail(kBadArgument, "[%s] %s is no regular file. Name one that is, or a new one.", where_,
                  path_.c_str());
    char* real = realpath(path_.c_str(), nullptr);
    if (real == nullptr) return failed("made");
    *mode = about.st_mode & 07777;
    path_ = real;
    free(real);
    return kOk;
  }
  Status failed(const char* what) const {
    return fail(kBadArgument, "[%s] %s cannot be %s: %s. Pass a path that can be.", where_, path_.c_str(),
                what, strerror(errno));
  }

  const char* where_;
  std::string path_, part_;
  FILE* file_ = nullptr;
  bool is_there_ = false;
};

std::string header_of(const StateTable& table) {
  std::string header = "{", separator;
  int64_t begin = 0;
  for (int32_t i = 0; i < table.count; ++i) {
    const StateSpec& spec = table.specs[i];
    std::string shape;
    for (int32_t d = 0; d < spec.rank; ++d) shape += (d != 0 ? "," : "") + std::to_string(spec.shape[d]);
    header += separator + "\"" + spec.name + "\":{\"dtype\":\"" + spec.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(begin + spec.bytes) +
              "]}";
    begin += spec.bytes;
    separator = ",";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

Status save(Run& run, const Context& context, const char* where, const char* path) {
  const StateTable& table = context.model->table->states;
  NewFile file(where, path);
  if (const Status s = file.open()) return s;
  const std::string header = header_of(table);
  char length[8];
  for (size_t i = 0; i < sizeof length; ++i)
    length[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 0xff);
  if (const Status s = file.write(length, sizeof length)) return s;
  if (const Status s = file.write(header.data(), header.size())) return s;
  std::vector<char> chunk(std::min(kChunk, static_cast<size_t>(table.bytes)));
  for (int32_t i = 0; i < table.count; ++i) {
    const char* state = context.states + table.specs[i].offset;
    const size_t bytes = static_cast<size_t>(table.specs[i].bytes);
    for (size_t at = 0; at < bytes; at += chunk.size()) {
      const size_t part = std::min(chunk.size(), bytes - at);
      if (const Status s = run.copy(chunk.data(), state + at, part)) return s;
      if (const Status s = file.write(chunk.data(), part)) return s;
    }
  }
  return file.finish();
}

Status load(Run& run, const Context& context, const char* where, const char* path) {
  const StateTable& table = context.model->table->states;
  FileMap map;
  const char* kind = "state file";
  if (const Status s = map.open(where, path, Access::kRead, kind)) return s;
  Safetensors file;
  if (const Status s = read_safetensors(&file, where, path, map.data(), map.bytes(), kind)) return s;
  std::vector<const StoredTensor*> found;
  for (int32_t i = 0; i < table.count; ++i) {
    const StateSpec& spec = table.specs[i];
    const StoredTensor* tensor = file.find(spec.name);
    if (tensor == nullptr)
      return fail(kBadArgument, "[%s] %s has no state %s, %s. Pass a file that this model saved.", where,
                  path, spec.name, spec.text);
    const bool is_alike = tensor->dtype == spec.dtype && tensor->bytes == static_cast<size_t>(spec.bytes) &&
                          tensor->shape.size() == static_cast<size_t>(spec.rank) &&
                          std::equal(tensor->shape.begin(), tensor->shape.end(), spec.shape);
    if (!is_alike)
      return fail(kBadArgument, "[%s] %s has another state %s than %s. Pass a file that this model saved.",
                  where, path, spec.name, spec.text);
    found.push_back(tensor);
  }
  if (file.tensors.size() != found.size())
    return fail(kBadArgument, "[%s] %s has %zu tensors, this model has %d states. Pass a file that it saved.",
                where, path, file.tensors.size(), static_cast<int>(table.count));
  for (int32_t i = 0; i < table.count; ++i) {
    const StoredTensor& tensor = *found[static_cast<size_t>(i)];
    if (const Status s = run.copy(context.states + table.specs[i].offset, tensor.data, tensor.bytes))
      return s;
  }
  return kOk;
}

// The context is idle, and what it has enqueued is over.
template <class F>
Status with(Context* context, const char* where, F&& act) noexcept {
  try {
    Run run(where);
    if (const Status s = run.claim(context)) return s;
    if (const Status s = run.settle()) return s;
    return act(run);
  } catch (const std::bad_alloc&) {
    return fail(kNoMemory, "[%s] no memory for a part of the states. Free memory, or open fewer contexts.",
                where);
  } catch (...) {
    return fail(kInternal, "[%s] an unexpected exception.", where);
  }
}

Status need_path(const char* path, const char* where) {
  if (path != nullptr) return kOk;
  return fail(kBadArgument, "[%s] the path is NULL. Pass a file's path.", where);
}

}  // namespace

Status reset_states(Context* context) noexcept {
  return with(context, "state_reset", [&](Run& run) {
    return run.clear(context->states, static_cast<size_t>(context->model->table->states.bytes));
  });
}

Status copy_states(Context* to, Context* from) noexcept {
  const char* where = "state_copy";
  if (to != nullptr && to == from) return kOk;
  return with(from, where, [&](Run&) {
    return with(to, where, [&](Run& run) {
      const StateTable& table = to->model->table->states;
      if (from->model->table != to->model->table)
        return fail(kBadArgument, "[%s] the contexts are of two models. Pass contexts of one.", where);
      return run.copy(to->states, from->states, static_cast<size_t>(table.bytes));
    });
  });
}

Status save_states(Context* context, const char* path) noexcept {
  const char* where = "state_save";
  if (const Status s = need_path(path, where)) return s;
  return with(context, where, [&](Run& run) { return save(run, *context, where, path); });
}

Status load_states(Context* context, const char* path) noexcept {
  const char* where = "state_load";
  if (const Status s = need_path(path, where)) return s;
  return with(context, where, [&](Run& run) { return load(run, *context, where, path); });
}

}  // namespace LUMIGEN_NS
