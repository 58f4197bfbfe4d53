-- Trireme as a Lua module of the tree that this file is installed in (Lmod).
-- SPDX-License-Identifier: Apache-2.0
-- Use it where it lies, `module use PREFIX/share/trireme/modulefiles`, or link it into the
-- site's own folder as trireme/VERSION.lua: the prefix is found from the file itself.
local file = myFileName()
local target = subprocess("readlink -f '" .. file .. "'"):gsub("%s+$", "")
local prefix = (target ~= "" and target or file):gsub("/share/trireme/modulefiles/.*$", "")

help([[Trireme trains large language models under srun or mpirun. Start with
    trireme help
and the documents in ]] .. prefix .. [[/share/doc/trireme. The modules of the compiler, MPI and HDF5
that it was built with have to be loaded as well.]])
whatis("Name: Trireme")
whatis("Description: distributed training of large language models as one MPI program")
whatis("License: Apache-2.0")

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("MANPATH", pathJoin(prefix, "share/man"))
prepend_path("XDG_DATA_DIRS", pathJoin(prefix, "share"))
prepend_path("FPATH", pathJoin(prefix, "share/zsh/site-functions"))
prepend_path("PYTHONPATH", pathJoin(prefix, "share/trireme/python"))
setenv("TRIREME_HOME", prefix)
