#include "app/cli.h"

int main(int argc, char** argv) { return smelt::run_command_line(argc, argv); }
