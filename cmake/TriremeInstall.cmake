# cmake --install: a relocatable tree with the program and what belongs to it.
# SPDX-License-Identifier: Apache-2.0
# These are example decks, job scripts, the deck's schema, the man page, the completion for shells,
# the documents, a modulefile and a reader for Python.
include(GNUInstallDirs)

if(TARGET trireme)
  install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(FILES ${pages}/deck.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme)
  install(FILES ${pages}/trireme.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/trireme.bash RENAME trireme
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/_trireme DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${pages}/trireme.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/inputs)
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/jobs
        FILES_MATCHING PATTERN "*.sbatch" PATTERN "*.sh" PATTERN "*.md"
        PATTERN "quickstart.sh" EXCLUDE)  # it builds the sources first
install(DIRECTORY share/trireme/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme
        FILES_MATCHING PATTERN "*.py" PATTERN "*.lua" PATTERN "__pycache__" EXCLUDE)
install(FILES LICENSE README.md SECURITY.md CONTRIBUTING.md CHANGELOG.md CITATION.cff
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs
        FILES_MATCHING PATTERN "*.md" PATTERN "*.ipynb")
foreach(name DOCDIR DATADIR)  # which packagers may give as absolute folders
  set(${name} "\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_${name}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${name}}")
    set(${name} "${CMAKE_INSTALL_${name}}")
  endif()
endforeach()
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND}
  -DFOLDER=\$ENV{DESTDIR}${DOCDIR} -DDATA=\$ENV{DESTDIR}${DATADIR}/trireme
  -P ${PROJECT_SOURCE_DIR}/cmake/TriremeDocuments.cmake COMMAND_ERROR_IS_FATAL ANY)")
