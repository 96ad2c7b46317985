# What an installation has beside the program is written by the program itself, so it is made when it is installed.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)  # a package needs the program, not the tests
set(made ${CMAKE_BINARY_DIR}/made)

install(TARGETS smelt RUNTIME)
install(CODE "
  file(MAKE_DIRECTORY ${made})
  foreach(reader bash zsh fish man)
    execute_process(COMMAND $<TARGET_FILE:smelt> completion \${reader} OUTPUT_FILE ${made}/smelt.\${reader}
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND gzip -9nf ${made}/smelt.man COMMAND_ERROR_IS_FATAL ANY)
")
install(FILES ${made}/smelt.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME smelt)
install(FILES ${made}/smelt.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _smelt)
install(FILES ${made}/smelt.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${made}/smelt.man.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME smelt.1.gz)
install(FILES cmake/smelt.service DESTINATION lib/systemd/system)  # not enabled: it is told first what to serve
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/smelt)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/smelt RENAME copyright)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/smelt)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME smelt)
set(CPACK_PACKAGE_VENDOR "The smelt authors")
set(CPACK_PACKAGE_CONTACT "The smelt authors <maintainers@smelt.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run large language models from GGUF files")
set(CPACK_PACKAGE_DESCRIPTION "smelt runs large language models on this machine. It compiles each model into machine code for
the processor that it finds, with a tensor compiler of its own.")
set(CPACK_PACKAGE_FILE_NAME smelt_${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4 | libcurl3-gnutls, ca-certificates")  # loaded where models are fetched
set(CPACK_STRIP_FILES ON)
include(CPack)
