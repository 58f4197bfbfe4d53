# cmake --install: a relocatable tree with the program and what belongs to it.
# SPDX-License-Identifier: Apache-2.0
# These are example decks, job scripts, the deck's schema, the man page and the completion for bash.
include(GNUInstallDirs)

if(TARGET trireme)
  install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set(pages ${PROJECT_BINARY_DIR}/pages)
  install(FILES ${pages}/deck.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme)
  install(FILES ${pages}/trireme.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/trireme.bash RENAME trireme
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/inputs)
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/jobs
        FILES_MATCHING PATTERN "*.sbatch" PATTERN "*.sh" PATTERN "*.md"
        PATTERN "quickstart.sh" EXCLUDE)  # it builds the sources first
install(FILES LICENSE README.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
