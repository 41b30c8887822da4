python manage.py makemigrations --check
python manage.py migrate
python manage.py test
