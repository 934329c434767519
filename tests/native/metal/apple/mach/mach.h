#pragma once
typedef unsigned kern_return_t, task_id_token_t, mach_port_t;
