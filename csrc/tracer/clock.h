// The clock of all records.
#pragma once
