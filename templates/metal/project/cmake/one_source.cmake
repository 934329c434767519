# Writes all kernels and what they include as one source, which a GPU's driver compiles when a model is opened: it knows
# no folders.
#
#   cmake -DSOURCES="a.metal;b.metal" -DFOLDERS="..." -DNAMESPACE=... -DOUT=... -P one_source.cmake

set(text "#define LUMIGEN_NS ${NAMESPACE}\n#pragma clang fp contract(off)\n")
foreach(source IN LISTS SOURCES)
  string(APPEND text "#include \"${source}\"\n")
endforeach()
set(done "")  # of the text, in which nothing is included any more
set(included "")
while(text MATCHES "#include \"([^\"\n]+)\"[^\n]*\n")
  set(line "${CMAKE_MATCH_0}")
  set(name "${CMAKE_MATCH_1}")
  string(FIND "${text}" "${line}" at)
  string(LENGTH "${line}" length)
  string(SUBSTRING "${text}" 0 ${at} before)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${text}" ${at} -1 text)
  string(APPEND done "${before}")
  unset(path)
  foreach(folder IN LISTS FOLDERS)
    if(NOT path AND EXISTS "${folder}/${name}")
      set(path "${folder}/${name}")
    endif()
  endforeach()
  if(NOT path)
    string(APPEND done "${line}")  # of the emulator
    continue()
  endif()
  get_filename_component(path "${path}" REALPATH)
  if(NOT path IN_LIST included)
    list(APPEND included "${path}")
    file(READ "${path}" content)
    string(REPLACE "#pragma once\n" "" content "${content}")
    string(PREPEND text "${content}\n")
  endif()
endwhile()
file(WRITE "${OUT}" "${done}${text}")
