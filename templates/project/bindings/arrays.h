// Between Python's arrays and the C interface's tensors, for any model: what the generated python.cpp fills
// with a table of entries.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace LUMIGEN_NS {

namespace py = pybind11;

// DLPack's structs; the first is the C header's tensor, bit for bit.
struct ArrayTensor {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct ManagedTensor {
  ArrayTensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};

struct PortTable {
  const char* name;
  const char* text;   // x: f32[batch, 784]
  const char* numpy;  // float32
  const char* shape;  // (batch, 784)
  uint8_t code, bits;
  int32_t rank;
};

struct DimTable {
  const char* name;
  int64_t lo, hi, multiple_of;
};

struct EntryTable {
  const char* name;
  const char* signature;
  std::vector<PortTable> inputs, outputs;
  std::vector<DimTable> dims;
  // The shapes of the outputs for these inputs, of which ranks are checked; a status.
  int32_t (*shape)(const ArrayTensor* inputs, int64_t* const* shapes);
  int32_t (*run)(void* context, const ArrayTensor* tensors);
};

// The statuses that are found before the C interface is asked.
enum : int32_t { kArrayArgument = 1, kArrayDtype = 2, kArrayShape = 3, kArrayDevice = 4 };

// Raises the module's Error; set when the module is made.
struct Raise {
  PyObject* type = nullptr;
  [[noreturn]] void operator()(int32_t status, const std::string& text) const {
    // A path need not be UTF-8, and a message that was cut may end inside a character.
    const auto decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    if (decoded == nullptr) throw py::error_already_set();
    py::object error = py::reinterpret_borrow<py::object>(type)(py::reinterpret_steal<py::object>(decoded));
    error.attr("status") = status;
    PyErr_SetObject(type, error.ptr());
    throw py::error_already_set();
  }
};

// An object that Python's `__new__` makes alone, or whose constructor throws, holds nothing. pybind11 hands
// methods memory of `operator new` for it, in which nothing was constructed: here that raises. make_shared
// does not call it.
struct Constructed {
  [[noreturn]] static void* operator new(size_t) {
    throw py::type_error(
        "[Model] the object was made by __new__ alone and holds nothing. Call Model(...), and context() of a "
        "model.");
  }
  static void operator delete(void* object) { ::operator delete(object); }
};

// Where arrays may lie besides the host's memory, as DLPack has it.
struct Device {
  int32_t type = 1, id = 0;  // 1: nowhere else
  int64_t stream = 0;        // that reads and writes them
};

// An argument on its way: a tensor, and what keeps its memory alive.
struct Argument {
  ArrayTensor tensor = {};
  std::vector<int64_t> shape;
  py::object owner;
  bool is_copy = false;  // of the array that was passed
};

// The end of Python: who asks for its lock then is ended in a way that no C++ survives.
class Ending {
 public:
  // Once, when the module is imported: Python says before its end that it is near.
  void watch() {
    py::module_::import("atexit").attr("register")(py::cpp_function([this] {
      PyThreadState* const state = PyEval_SaveThread();
      thread_ = std::this_thread::get_id();
      is_near_ = true;
      while (returning_ != 0) std::this_thread::yield();  // these still get the lock
      PyEval_RestoreThread(state);
    }));
  }

  // Takes the lock again. A thread that comes when the end is near waits for the end of the process.
  void take_lock(PyThreadState* state) {
    ++returning_;
    if (is_near_ && std::this_thread::get_id() != thread_) {
      --returning_;
      while (true) std::this_thread::sleep_for(std::chrono::hours(1));
    }
    PyEval_RestoreThread(state);
    --returning_;
  }

 private:
  std::atomic<bool> is_near_{false};
  std::atomic<int> returning_{0};  // threads that ask for the lock
  std::thread::id thread_;         // that ends Python
};

inline Ending ending;

// A call during which other threads of Python may run.
template <class F>
void without_python(F&& call) {
  PyThreadState* const state = PyEval_SaveThread();
  call();
  ending.take_lock(state);
}

class Arrays {
 public:
  explicit Arrays(const Raise& raise, const Device& device = {})
      : raise_(raise), device_(device), numpy_(py::module_::import("numpy")) {}

  // `is_output`: the memory itself is wanted, writable; else a copy will do where the memory is not
  // row-major.
  Argument take(const char* entry, const PortTable& port, const py::object& value, bool is_output) const {
    Argument out = py::isinstance<py::array>(value) ? from_numpy(entry, port, value, is_output)
                   : py::hasattr(value, "__dlpack__") && !is_generic(value)
                       ? from_dlpack(entry, port, value, is_output)
                       : from_scalar(entry, port, value, is_output);
    if (out.tensor.ndim != port.rank)
      raise_(kArrayShape, at(entry) + port.name + " has shape " + shape_text(out.shape) + ", must be " +
                              port.shape + ". Reshape it.");
    return out;
  }

  // A fresh array for an output.
  py::object empty(const char* entry, const PortTable& port, const std::vector<int64_t>& shape) const {
    py::tuple extents(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) extents[i] = shape[i];
    return numpy_.attr("empty")(extents, dtype(entry, port));
  }

 private:
  static std::string text(const py::object& value) { return py::str(value).cast<std::string>(); }

  std::string place(int32_t type, int32_t id) const {
    return type == device_.type ? "GPU " + std::to_string(id) : "device type " + std::to_string(type);
  }

  static std::string at(const char* entry) { return std::string("[") + entry + "] "; }

  bool is_generic(const py::object& value) const { return py::isinstance(value, numpy_.attr("generic")); }

  // numpy's dtype of a port. numpy itself has no bfloat16.
  py::object dtype(const char* entry, const PortTable& port) const {
    if (port.code != 4) return numpy_.attr("dtype")(port.numpy);
    try {
      return numpy_.attr("dtype")(py::module_::import("ml_dtypes").attr("bfloat16"));
    } catch (py::error_already_set&) {
      raise_(kArrayDtype, at(entry) + port.name +
                              " is bfloat16, for which numpy needs ml_dtypes. Install that, or pass "
                              "out= with an array of another library.");
    }
  }

  // The same in a line of Python.
  static std::string type_text(const PortTable& port) {
    if (port.code == 6) return "np.bool_";  // np.bool is Python's own before numpy 2, or missing
    return (port.code == 4 ? "ml_dtypes." : "np.") + std::string(port.numpy);
  }

  static std::string shape_text(const std::vector<int64_t>& shape) {
    py::tuple extents(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) extents[i] = shape[i];
    return text(extents);
  }

  static uint8_t code_of(const py::dtype& dtype) {
    switch (dtype.kind()) {
      case 'f':
        return 2;
      case 'i':
        return 0;
      case 'u':
        return 1;
      case 'b':
        return 6;
      default:
        return text(dtype) == "bfloat16" ? 4 : 255;
    }
  }

  Argument from_numpy(const char* entry, const PortTable& port, const py::object& value,
                      bool is_output) const {
    py::array array = py::reinterpret_borrow<py::array>(value);
    const py::dtype dtype = array.dtype();
    const bool native = dtype.byteorder() == '=' || dtype.byteorder() == '|';
    if (code_of(dtype) != port.code || dtype.itemsize() * 8 != port.bits || !native)
      raise_(kArrayDtype,
             at(entry) + port.name + " is " + text(dtype) + ", must be " + port.numpy + ". " +
                 (is_output ? std::string("Pass an array of that dtype.")
                            : std::string("Pass ") + port.name + ".astype(" + type_text(port) + ")."));
    constexpr int wanted =
        py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_ | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
    const bool usable = (array.flags() & wanted) == wanted;
    if (is_output && (!usable || !array.writeable()))
      raise_(kArrayArgument,
             at(entry) + port.name +
                 " is not contiguous and writable, must be both to be written to. Pass another array "
                 "as out, or none.");
    if (!usable) array = plain(entry, port, array);
    Argument out;
    out.owner = array;
    out.shape.assign(array.shape(), array.shape() + array.ndim());
    out.tensor.data = const_cast<void*>(array.data());
    fill(&out, port);
    return out;
  }

  // A row-major array of numpy's own class: what a class of somebody's makes of itself may be anything.
  py::array plain(const char* entry, const PortTable& port, const py::object& value) const {
    const py::object made = numpy_.attr("array")(value, py::arg("order") = "C");
    if (!py::isinstance<py::array>(made))
      raise_(kArrayArgument, at(entry) + port.name + " makes no array of itself. Pass an array of numpy's.");
    return py::reinterpret_borrow<py::array>(made);
  }

  // A number has no dtype, so it fits any tensor without axes of its kind.
  Argument from_scalar(const char* entry, const PortTable& port, const py::object& value,
                       bool is_output) const {
    const bool is_int =
        py::isinstance<py::int_>(value) && !py::isinstance<py::bool_>(value) && port.code <= 1;
    const bool is_float = py::isinstance<py::float_>(value) && port.code == 2;
    const bool is_bool = py::isinstance<py::bool_>(value) && port.code == 6;
    if (!is_output && port.rank == 0 && (is_int || is_float || is_bool)) {
      try {
        return from_numpy(entry, port, numpy_.attr("array")(value, dtype(entry, port)), false);
      } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_OverflowError)) throw;
        raise_(kArrayArgument, at(entry) + port.name + " is " + py::repr(value).cast<std::string>() +
                                   ", which no " + port.numpy + " holds. Pass a smaller number.");
      }
    }
    if (is_generic(value) && !is_output) return from_numpy(entry, port, plain(entry, port, value), false);
    const std::string type = py::str(py::type::of(value).attr("__name__"));
    raise_(kArrayArgument, at(entry) + port.name + " is of type " + type + ", must be an array of " +
                               port.numpy + ". Pass np.asarray(" + port.name + ", " + type_text(port) + ").");
  }

  Argument from_dlpack(const char* entry, const PortTable& port, const py::object& value,
                       bool is_output) const {
    const py::tuple where = value.attr("__dlpack_device__")();
    const int32_t type = where[0].cast<int>(), id = where[1].cast<int>();
    const bool on_device = device_.type != 1 && type == device_.type;
    if (on_device ? id != device_.id : type != 1)
      raise_(kArrayDevice, at(entry) + port.name + " is on " + place(type, id) + ", must be on " +
                               (device_.type == 1 ? "" : place(device_.type, device_.id) + " or on ") +
                               "the CPU (1). Copy it there.");
    if (py::hasattr(value, "requires_grad") && py::cast<bool>(value.attr("requires_grad")))
      raise_(kArrayArgument,
             at(entry) + port.name + " records gradients, which are not computed here. Pass its .detach().");
    // The array's library makes our stream wait for what writes it.
    py::object capsule =
        on_device ? value.attr("__dlpack__")(py::arg("stream") = device_.stream) : value.attr("__dlpack__")();
    auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) throw py::error_already_set();
    const ArrayTensor& t = managed->tensor;  // the capsule frees it, since its name stays as it is
    if (t.code != port.code || t.bits != port.bits || t.lanes != 1)
      raise_(kArrayDtype, at(entry) + port.name + " is " + text(value.attr("dtype")) + ", must be " +
                              port.numpy + ". Convert it first.");
    if (t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr))
      raise_(kArrayArgument, at(entry) + port.name + " has " + std::to_string(t.ndim) +
                                 " axes and no shape. Pass an array that has one.");
    Argument out;
    out.owner = capsule;
    out.shape.assign(t.shape, t.shape + t.ndim);
    char* data = static_cast<char*>(t.data) + t.byte_offset;
    if (row_major(t) && reinterpret_cast<uintptr_t>(data) % (port.bits / 8u) == 0) {
      out.tensor.data = data;
    } else if (is_output) {
      raise_(kArrayArgument,
             at(entry) + port.name + " is not contiguous, must be to be written to. Pass another out.");
    } else if (on_device) {
      const char* copy = py::hasattr(value, "contiguous") ? "contiguous" : "copy";  // torch's name, CuPy's
      out = from_dlpack(entry, port, value.attr(copy)(), true);
      out.is_copy = true;
      return out;
    } else {
      out.owner = gather(t, data);
      out.tensor.data = PyByteArray_AsString(out.owner.ptr());
    }
    fill(&out, port);
    out.tensor.device_type = type;
    out.tensor.device_id = id;
    return out;
  }

  static bool row_major(const ArrayTensor& t) {
    if (t.strides == nullptr) return true;
    int64_t expected = 1;
    for (int32_t i = t.ndim - 1; i >= 0; --i) {
      if (t.shape[i] != 1 && t.strides[i] != expected) return false;
      expected *= t.shape[i];
    }
    return true;
  }

  // The elements in row-major order.
  static py::object gather(const ArrayTensor& t, const char* data) {
    const int64_t size = t.bits / 8;
    int64_t count = 1;
    for (int32_t i = 0; i < t.ndim; ++i) count *= t.shape[i];
    py::object bytes =
        py::reinterpret_steal<py::object>(PyByteArray_FromStringAndSize(nullptr, count * size));
    if (!bytes) throw py::error_already_set();
    char* out = PyByteArray_AsString(bytes.ptr());
    for (int64_t flat = 0; flat < count; ++flat) {
      int64_t rest = flat, offset = t.strides == nullptr ? flat : 0;
      for (int32_t i = t.ndim - 1; i >= 0 && t.strides != nullptr; --i) {
        offset += rest % t.shape[i] * t.strides[i];
        rest /= t.shape[i];
      }
      std::memcpy(out + flat * size, data + offset * size, static_cast<size_t>(size));
    }
    return bytes;
  }

  static void fill(Argument* out, const PortTable& port) {
    out->tensor.device_type = 1;
    out->tensor.ndim = static_cast<int32_t>(out->shape.size());
    out->tensor.code = port.code;
    out->tensor.bits = port.bits;
    out->tensor.lanes = 1;
    out->tensor.shape = out->shape.data();
  }

  Raise raise_;
  Device device_;
  py::object numpy_;
};

[[noreturn]] inline void refuse_call(const EntryTable& entry, const std::string& what) {
  throw py::type_error(std::string(entry.name) + "() " + what + ". It is " + entry.signature + ".");
}

// The inputs as Python's calling rules give them: by position, then by name. Takes `out` from the keywords.
inline std::vector<py::object> bind_arguments(const EntryTable& entry, const py::args& positional,
                                              py::dict named, py::object* out) {
  const auto wrong = [&](const std::string& what) { refuse_call(entry, what); };
  if (positional.size() > entry.inputs.size())
    wrong("takes " + std::to_string(entry.inputs.size()) + " inputs, not " +
          std::to_string(positional.size()));
  for (const auto& item : named) {
    bool is_known = py::str(item.first).equal(py::str("out"));
    for (const PortTable& port : entry.inputs) is_known |= py::str(item.first).equal(py::str(port.name));
    if (!is_known) wrong("has no input " + py::str(item.first).cast<std::string>());
  }
  std::vector<py::object> values;
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const py::str name(entry.inputs[i].name);
    const bool is_named = named.contains(name);
    if (i < positional.size()) {
      if (is_named) wrong(std::string("got ") + entry.inputs[i].name + " twice");
      values.push_back(py::reinterpret_borrow<py::object>(positional[i]));
    } else if (is_named) {
      values.push_back(py::reinterpret_borrow<py::object>(named[name]));
      named.attr("pop")(name);
    } else {
      wrong(std::string("lacks input ") + entry.inputs[i].name);
    }
  }
  *out = named.attr("pop")("out", py::none());
  return values;
}

// The caller's arrays for several outputs: a mapping by their names, or a sequence in their order.
inline std::vector<py::object> bind_outputs(const EntryTable& entry, const py::object& out) {
  std::vector<py::object> arrays;
  if (py::hasattr(out, "keys")) {
    for (const auto& key : out) {
      bool is_known = false;
      for (const PortTable& port : entry.outputs) is_known |= py::str(key).equal(py::str(port.name));
      if (!is_known)
        refuse_call(entry, "has no output " + py::str(key).cast<std::string>() + ", which out names");
    }
    for (const PortTable& port : entry.outputs) {
      if (!out.contains(port.name)) refuse_call(entry, std::string("lacks output ") + port.name + " in out");
      arrays.push_back(out[port.name]);
    }
    return arrays;
  }
  if (!py::isinstance<py::sequence>(out))
    refuse_call(entry, "takes as out a tuple of arrays or a dict of them by name, not " +
                           py::str(py::type::of(out).attr("__name__")).cast<std::string>());
  const size_t count = entry.outputs.size();
  if (py::len(out) != count)
    throw py::value_error("out has " + std::to_string(py::len(out)) + " arrays, must have " +
                          std::to_string(count) + ", one for each output of " + entry.signature + ".");
  for (size_t i = 0; i < count; ++i) arrays.push_back(out[py::int_(i)]);
  return arrays;
}

}  // namespace LUMIGEN_NS
